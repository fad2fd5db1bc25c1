/** Numbers for people: three figures at most, units beside them. An unknown number is a dash. */

import { decimal, percent, t, time } from "./i18n.js";

const UNKNOWN = "–";

const known = (number) => typeof number === "number" && Number.isFinite(number);

/** A whole number: 12,480 */
export const count = (number) => (known(number) ? decimal(number) : UNKNOWN);

/** A rate: 0.42, 8.3, 1,240 */
export function rate(number) {
  if (!known(number)) return UNKNOWN;
  if (number === 0) return "0";
  return decimal(number, number < 1 ? 2 : number < 100 ? 1 : 0);
}

/** A share of one: 3.1% */
export function share(number) {
  if (!known(number)) return UNKNOWN;
  return percent(number, number === 0 || number >= 0.1 ? 0 : 1);
}

/** A confidence in words; "" where it is none, or only a rank among others, which says nothing to a reader. */
export function certainty({ confidence, confidence_kind: kind }) {
  return known(confidence) && kind === "calibrated" ? t("translate.confidence", { share: percent(confidence) }) : "";
}

/** A duration given in seconds: 0.8 ms, 84 ms, 1.24 s, 12.4 s, 3 min 20 s */
export function duration(seconds) {
  if (!known(seconds)) return UNKNOWN;
  if (seconds < 0.01) return `${decimal(seconds * 1000, 1)} ms`;
  if (seconds < 0.9995) return `${decimal(seconds * 1000)} ms`;
  if (seconds < 10) return `${decimal(seconds, 2)} s`;
  if (seconds < 100) return `${decimal(seconds, 1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
}

const trimmed = (number) => decimal(Number(number.toPrecision(3)), 6, 0);

/** A number on an axis, without figures that say nothing: 0, 2.5, 50, 1,250 */
export const mark = (number) => (number < 1000 ? trimmed(number) : decimal(number));

/** Seconds on an axis: 0, 250 ms, 2.5 s */
export function durationMark(seconds) {
  if (seconds === 0) return "0";
  return seconds < 1 ? `${trimmed(seconds * 1000)} ms` : `${trimmed(seconds)} s`;
}

/** Seconds before now, or since a beginning: 0:07, 4:30 */
export function ago(seconds) {
  const whole = Math.max(Math.round(seconds), 0);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** What is left of something that takes so many seconds, as exactly as an estimate deserves. */
export function remaining(seconds) {
  if (!known(seconds)) return "";
  if (seconds < 10) return t("documents.left_seconds");
  const about = seconds < 90 ? time(10 * Math.ceil(seconds / 10), "second") : seconds < 5400 ? time(Math.ceil(seconds / 60), "minute") : time(Math.ceil(seconds / 3600), "hour");
  return t("documents.left_about", { time: about });
}
