/** Colours of terminals, made readable on the light and on the dark ground of the log. */
import type { CSSProperties } from "react";
import type { TextStyle } from "./ansi";

/** Red, green and blue, from 0 to 255. */
export type Colour = readonly [number, number, number];

// No ground of a line is darker in the light theme, or lighter in the dark one (styles/tokens.css).
const LIGHT: Colour = [230, 230, 228];
const DARK: Colour = [35, 50, 82];
const TEXT: { light: Colour; dark: Colour } = { light: [29, 34, 48], dark: [231, 233, 239] };
const BLACK: Colour = [0, 0, 0];
const WHITE: Colour = [255, 255, 255];
// Of WCAG AA, with a little room for rounding.
const CONTRAST = 4.6;
const STEPS = 20;

const BASE: readonly Colour[] = [
  [0, 0, 0],
  [187, 41, 41],
  [20, 128, 60],
  [150, 105, 0],
  [40, 90, 200],
  [150, 50, 160],
  [0, 125, 140],
  [200, 200, 200],
  [110, 115, 125],
  [225, 75, 70],
  [45, 165, 85],
  [205, 150, 30],
  [85, 140, 245],
  [195, 100, 205],
  [40, 170, 185],
  [255, 255, 255],
];
const CUBE = [0, 95, 135, 175, 215, 255] as const;

/** One of the 256 colours of terminals. */
export function indexedColour(index: number): Colour {
  const base = BASE[index];
  if (base) return base;
  if (index >= 232) {
    const grey = 8 + 10 * (index - 232);
    return [grey, grey, grey];
  }
  const at = index - 16;
  const level = (step: number) => CUBE[Math.floor(at / step) % 6] ?? 0;
  return [level(36), level(6), level(1)];
}

/** The style for a page: built of numbers only, so that a log cannot inject anything. */
export function cssOf(style: TextStyle): CSSProperties {
  const css: CSSProperties = {};
  const { colour, ground, inverse } = style;
  if (inverse) {
    const on = (theme: "light" | "dark") => colour ?? TEXT[theme];
    css.backgroundColor = themed(on("light"), on("dark"));
    css.color = themed(readable(ground ?? LIGHT, on("light")), readable(ground ?? DARK, on("dark")));
  } else if (ground) {
    css.backgroundColor = rgb(ground);
    css.color = colour
      ? rgb(readable(colour, ground))
      : themed(readable(TEXT.light, ground), readable(TEXT.dark, ground));
  } else if (colour) css.color = themed(readable(colour, LIGHT), readable(colour, DARK));
  else if (style.dim) css.color = "var(--text-soft)";
  if (style.bold) css.fontWeight = 650;
  if (style.italic) css.fontStyle = "italic";
  const lines = [style.underline && "underline", style.strike && "line-through"].filter(Boolean);
  if (lines.length > 0) css.textDecoration = lines.join(" ");
  return css;
}

const rgb = ([red, green, blue]: Colour): string => `rgb(${red} ${green} ${blue})`;
const themed = (light: Colour, dark: Colour): string => `light-dark(${rgb(light)}, ${rgb(dark)})`;

/** The colour, or a darker or lighter one that can be read on the ground. */
export function readable(colour: Colour, ground: Colour): Colour {
  const towards = contrast(WHITE, ground) > contrast(BLACK, ground) ? WHITE : BLACK;
  for (let step = 0; step < STEPS; step++) {
    const mixed = mix(colour, towards, step / STEPS);
    if (contrast(mixed, ground) >= CONTRAST) return mixed;
  }
  return towards;
}

const mix = (colour: Colour, other: Colour, share: number): Colour => {
  const part = (at: 0 | 1 | 2) => Math.round(colour[at] * (1 - share) + other[at] * share);
  return [part(0), part(1), part(2)];
};

/** By the formula of WCAG 2. */
export function contrast(one: Colour, other: Colour): number {
  const [darker = 0, lighter = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (lighter + 0.05) / (darker + 0.05);
}

function luminance(colour: Colour): number {
  const [red = 0, green = 0, blue = 0] = colour.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
