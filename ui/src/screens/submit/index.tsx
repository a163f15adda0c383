import { Construction } from "lucide-react";
import { EmptyState } from "../../ui/feedback";
import { Page } from "../../ui/Page";

export default function Screen() {
  return (
    <Page title="submit">
      <EmptyState icon={Construction} title="submit" />
    </Page>
  );
}
