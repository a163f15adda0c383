/** Lines of a chart as paths of SVG: an interval is one unit wide. */

export const HEIGHT = 100;

/** Through the middle of each interval; a value without neighbours is a short stroke. */
export function pathOf(values: readonly (number | null)[], top: number): string {
  const parts = values.map((value, number) => {
    if (value === null) return "";
    const y = (HEIGHT - (Math.min(value, top) / top) * HEIGHT).toFixed(2);
    if (number > 0 && values[number - 1] != null) return `L${number + 0.5} ${y}`;
    const isAlone = values[number + 1] == null;
    return isAlone ? `M${number + 0.2} ${y}H${number + 0.8}` : `M${number + 0.5} ${y}`;
  });
  return parts.join("");
}
