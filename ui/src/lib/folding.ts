/**
 * Text as searches compare it: without case, width or composition. In upper case, because lower case has
 * two forms of one Greek letter.
 */
export const folded = (text: string): string => text.normalize("NFKC").toUpperCase();
