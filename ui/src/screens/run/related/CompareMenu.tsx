/** "Compare": with the previous run of the flow, the run that this one repeats, or the last success. */
import { ChevronDown, GitCompareArrows } from "lucide-react";
import { useState } from "react";
import { api } from "../../../api/client";
import { useRead } from "../../../api/queries";
import { navigate } from "../../../app/router";
import { useMessages } from "../../../i18n/messages";
import { Button } from "../../../ui/controls";
import { Menu, MenuItem } from "../../../ui/menus";
import { compareHref } from "../../compare/compareHref";
import { messages } from "../../compare/messages";
import type { Run } from "../run";

export function CompareMenu({ run }: { run: Run }) {
  const t = useMessages(messages);
  const [asked, setAsked] = useState(false);
  const previous = useEarlier(run, asked);
  const success = useEarlier(run, asked, "COMPLETED");
  const open = (other: string | null | undefined) => () => {
    if (other) navigate(compareHref(other, run.run_id));
  };
  return (
    <Menu
      align="end"
      trigger={
        <Button onPointerEnter={() => setAsked(true)} onFocus={() => setAsked(true)}>
          <GitCompareArrows size={14} aria-hidden />
          {t("compareWith")}
          <ChevronDown size={13} aria-hidden />
        </Button>
      }
    >
      <MenuItem disabled={!previous} onSelect={open(previous)}>
        {t("withPrevious")}
      </MenuItem>
      <MenuItem disabled={!success} onSelect={open(success)}>
        {t("withSuccess")}
      </MenuItem>
      {run.origin_run_id && <MenuItem onSelect={open(run.origin_run_id)}>{t("withOrigin")}</MenuItem>}
    </Menu>
  );
}

/** The newest run of the flow that was submitted before this one. */
function useEarlier(run: Run, enabled: boolean, status?: "COMPLETED"): string | null {
  const { data } = useRead(
    ["earlier-run", run.run_id, status],
    (signal) =>
      api.GET("/runs", {
        params: {
          query: {
            flow: run.flow_name,
            submitted_before: run.submitted_at ?? undefined,
            status: status && [status],
            sort: "submitted_at",
            limit: 2,
          },
        },
        signal,
      }),
    { enabled: enabled && run.submitted_at != null },
  );
  const items = Array.isArray(data) ? data : (data?.items ?? []);
  return items.find((each) => each.run_id !== run.run_id)?.run_id ?? null;
}
