import { visible } from "../lib/visible";

/** Text of people or programs: it cannot reorder the page or hide characters. */
export const UserText = ({ text }: { text: string }) => <bdi>{visible(text)}</bdi>;
