import { Construction } from "lucide-react";
import { EmptyState } from "../../ui/feedback";
import { Page } from "../../ui/Page";

export default function Screen() {
  return (
    <Page title="wait">
      <EmptyState icon={Construction} title="wait" />
    </Page>
  );
}
