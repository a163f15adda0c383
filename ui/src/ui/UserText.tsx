import { visible } from "../lib/visible";

/** A name or a message that people or programs gave: it does not reorder the page, and hides nothing. */
export const UserText = ({ text }: { text: string }) => <bdi>{visible(text)}</bdi>;
