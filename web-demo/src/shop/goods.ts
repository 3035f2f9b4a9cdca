/** What the shop has. Below: nothing. */

export type Category = "tea" | "pots" | "tableware" | "textiles";

export const CATEGORIES: readonly Category[] = ["tea", "pots", "tableware", "textiles"];

export interface Good {
  readonly name: string;
  readonly category: Category;
  /** In euros. */
  readonly price: number;
  readonly about: string;
  /** SVG paths in a box of 120 by 90, from back to front: [colour of the theme, path]. */
  readonly drawing: readonly (readonly [shade: "deep" | "mid" | "light" | "line", path: string])[];
}

export const GOODS: readonly Good[] = [
  {
    name: "Stoneware teapot",
    category: "pots",
    price: 64,
    about: "Holds a litre and keeps it warm.",
    drawing: [
      ["line", "M84 38c18-4 22 22 2 26"],
      ["mid", "M30 44c-14-4-16 6-8 16l10 6z"],
      ["deep", "M28 50c0-18 14-26 30-26s30 8 30 26c0 14-8 24-30 24S28 64 28 50z"],
      ["light", "M44 25h28c0-6-6-9-14-9s-14 3-14 9z"],
      ["deep", "M55 15a3 3 0 1 1 6 0 3 3 0 0 1-6 0z"],
    ],
  },
  {
    name: "Copper kettle",
    category: "pots",
    price: 89,
    about: "For the hob. It sings.",
    drawing: [
      ["line", "M36 34c2-26 42-26 44 0"],
      ["mid", "M82 46l18-14 4 5-16 22z"],
      ["light", "M30 56c0-16 12-24 28-24s28 8 28 24v14H30z"],
      ["mid", "M28 68h60v6H28z"],
      ["deep", "M48 31h20v4H48z"],
    ],
  },
  {
    name: "Sencha green tea",
    category: "tea",
    price: 12,
    about: "First flush, 100 g in a tin.",
    drawing: [
      ["mid", "M38 26h44v50H38z"],
      ["deep", "M36 16h48v12H36z"],
      ["light", "M44 38h32v26H44z"],
      ["deep", "M52 58c0-10 6-14 16-14 0 10-6 14-16 14z"],
    ],
  },
  {
    name: "Darjeeling black tea",
    category: "tea",
    price: 14,
    about: "Muscatel and bright, 100 g in a tin.",
    drawing: [
      ["deep", "M38 26h44v50H38z"],
      ["mid", "M36 16h48v12H36z"],
      ["light", "M60 36a15 15 0 1 1 0 30 15 15 0 0 1 0-30z"],
      ["mid", "M53 57c0-9 5-13 14-13 0 9-5 13-14 13z"],
    ],
  },
  {
    name: "Enamel mug",
    category: "tableware",
    price: 18,
    about: "Light, and hard to break.",
    drawing: [
      ["line", "M78 36c18-2 18 24 0 24"],
      ["light", "M34 24h46v46c0 4-3 6-7 6H41c-4 0-7-2-7-6z"],
      ["deep", "M32 20h50v6H32z"],
      ["mid", "M34 60h46v6H34z"],
    ],
  },
  {
    name: "Walnut tray",
    category: "tableware",
    price: 42,
    about: "Oiled by hand, for two cups and a pot.",
    drawing: [
      ["deep", "M16 46c0-8 20-14 44-14s44 6 44 14-20 18-44 18-44-10-44-18z"],
      ["mid", "M24 46c0-6 16-10 36-10s36 4 36 10-16 13-36 13-36-7-36-13z"],
      ["light", "M44 43h14c0 6-2 8-7 8s-7-2-7-8zM64 42h12c0 5-2 7-6 7s-6-2-6-7z"],
    ],
  },
  {
    name: "Bamboo whisk",
    category: "tableware",
    price: 22,
    about: "A hundred bristles, from one piece.",
    drawing: [
      ["mid", "M52 12h16v32H52z"],
      ["light", "M50 42h20l10 34H40z"],
      ["deep", "M50 40h20v5H50z"],
      ["line", "M52 46l-6 28M60 46v29M68 46l6 28"],
    ],
  },
  {
    name: "Linen tea towel",
    category: "textiles",
    price: 16,
    about: "Woven in the Vosges, 50 by 70 cm.",
    drawing: [
      ["light", "M34 18h52v54l-26-6-26 6z"],
      ["mid", "M34 28h52v5H34zM34 38h52v3H34z"],
      ["deep", "M34 18h52v4H34z"],
    ],
  },
];

export function goodNamed(name: string): Good {
  const wanted = name.toLowerCase();
  const good = GOODS.find((each) => each.name.toLowerCase() === wanted);
  if (!good)
    throw new Error(`The shop has no ${JSON.stringify(name)}. It has: ${GOODS.map((each) => each.name).join(", ")}.`);
  return good;
}
