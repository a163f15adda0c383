import { defineMessages } from "../../i18n/messages";

export const stepMessages = defineMessages({
  en: {
    runs: "Runs",
    previous: "Previous run of the list",
    next: "Next run of the list",
    place: "{place} of {count}",
  },
  ja: {
    runs: "run 一覧",
    previous: "一覧の前の run",
    next: "一覧の次の run",
    place: "{count}件中{place}件目",
  },
});
