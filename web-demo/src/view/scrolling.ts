/**
 * A view that stays at its end while it grows, as long as the reader is there, and where the reader put it otherwise.
 *
 * It measures only after the browser laid out anyway (ResizeObserver): following costs no layout of its own.
 */
import { type ReadonlySignal, type Signal, useSignal, useSignalEffect } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

/** So near to the end counts as there, in pixels. */
const NEAR = 48;
/** A reader who scrolls up is let go after this many pixels. */
const LET_GO = 4;
/** So long after a wheel, a finger, a key or a button moved, what scrolls is their doing, in milliseconds. */
const BY_HAND = 1_000;
/** What a reader scrolls with. */
const HANDS = ["wheel", "touchmove", "pointerdown", "keydown"] as const;

export interface Following {
  readonly view: RefObject<HTMLDivElement | null>;
  readonly content: RefObject<HTMLDivElement | null>;
  /** Whether the reader is elsewhere. */
  readonly away: Signal<boolean>;
  /** Go to the end and stay there. */
  toEnd(smoothly?: boolean): void;
}

/** `isShort`: there is nothing to follow yet, and what there is begins at its top. */
export function useFollowing(isShort: ReadonlySignal<boolean>): Following {
  const view = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const away = useSignal(false);
  const following = useRef(true);

  useEffect(() => {
    const area = view.current;
    const inner = content.current;
    if (area === null || inner === null) return;
    let top = area.scrollTop;
    let height = area.scrollHeight;
    let moved = Number.NEGATIVE_INFINITY;
    const onHand = () => {
      moved = performance.now();
    };
    const onScroll = () => {
      const left = area.scrollHeight - area.clientHeight - area.scrollTop;
      const up = area.scrollTop < top - 1;
      const byHand = performance.now() - moved < BY_HAND;
      // The browser scrolls up too, where something went away before something came. Readers have other means than
      // their hands (a search, a screen reader), which change nothing in the view.
      const isReader = byHand ? left > LET_GO : left > NEAR && area.scrollHeight === height;
      top = area.scrollTop;
      height = area.scrollHeight;
      if (up && isReader) following.current = false;
      else if (!up && left < NEAR) following.current = true;
      away.value = !following.current && left > NEAR && !isShort.peek();
    };
    const follow = () => {
      if (isShort.peek()) {
        away.value = false;
      } else if (following.current) {
        area.scrollTop = area.scrollHeight;
        top = area.scrollTop;
        height = area.scrollHeight;
      } else onScroll();
    };
    const sizes = new ResizeObserver(follow);
    sizes.observe(inner);
    sizes.observe(area);
    area.addEventListener("scroll", onScroll, { passive: true });
    for (const hand of HANDS) area.addEventListener(hand, onHand, { passive: true });
    return () => {
      sizes.disconnect();
      for (const hand of HANDS) area.removeEventListener(hand, onHand);
      area.removeEventListener("scroll", onScroll);
    };
  }, [away, isShort]);

  useSignalEffect(() => {
    if (isShort.value) view.current?.scrollTo(0, 0);
  });

  const toEnd = (smoothly = false) => {
    const area = view.current;
    following.current = true;
    away.value = false;
    if (isShort.peek()) return;
    const calm = !smoothly || matchMedia("(prefers-reduced-motion: reduce)").matches;
    area?.scrollTo({ top: area.scrollHeight, behavior: calm ? "instant" : "smooth" });
  };
  return { view, content, away, toEnd };
}

/** Keeps what the reader sees in its place when `first` changes because something came before it. */
export function useKeptPlace(view: RefObject<HTMLDivElement | null>, first: number): void {
  const before = useRef({ first, height: 0, top: 0 });
  if (view.current !== null && before.current.first !== first) {
    before.current = { first, height: view.current.scrollHeight, top: view.current.scrollTop };
  }
  useLayoutEffect(() => {
    const area = view.current;
    const { height, top } = before.current;
    if (area === null || height === 0) return;
    // Browsers that anchor by themselves do so everywhere but at the very top.
    if (top === 0 || !CSS.supports("overflow-anchor", "auto")) area.scrollTop = top + area.scrollHeight - height;
  }, [view, first]);
}
