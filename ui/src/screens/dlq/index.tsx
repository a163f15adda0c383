import { Construction } from "lucide-react";
import { EmptyState } from "../../ui/feedback";
import { Page } from "../../ui/Page";

export default function Screen() {
  return (
    <Page title="dlq">
      <EmptyState icon={Construction} title="dlq" />
    </Page>
  );
}
