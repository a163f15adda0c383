import { defineMessages } from "../../i18n/messages";

export const messages = defineMessages({
  en: {
    editTitle: "Edit the request",
    title: "Title",
    titleHint: "One line: what is to be changed.",
    requiredTitle: "Enter a title.",
    "priority.P0": "P0 · now",
    "priority.P1": "P1 · high",
    "priority.P2": "P2 · normal",
    "priority.P3": "P3 · low",
    tagsHint: "Comma-separated.",
    wantHint:
      "Markdown: the goal, how to check that it is reached, and what must not change. It becomes a file in the repository.",
    create: "Create",
    save: "Save",
    discard: "Discard",
  },
  ja: {
    editTitle: "依頼を編集",
    title: "タイトル",
    titleHint: "変更内容を1行で書きます。",
    requiredTitle: "タイトルを入力してください。",
    "priority.P0": "P0・最優先",
    "priority.P1": "P1・高",
    "priority.P2": "P2・通常",
    "priority.P3": "P3・低",
    tagsHint: "カンマ区切り。",
    wantHint:
      "Markdown で、目的、達成の確認方法、変えてはいけないことを書きます。リポジトリ内のファイルになります。",
    create: "作成",
    save: "保存",
    discard: "破棄",
  },
});
