/** Places in a file, as the server names them ("slide 3, paragraph 2"), in the reader's words. What is a name of the file stays. */

import { has, t } from "./i18n.js";

const PART = /^([a-z]+) (\d+)(.*)$/;

export function placeName(place) {
  const named = (part) => {
    const [, word, n, rest] = PART.exec(part) ?? [];
    return word && has(`place.${word}`) ? t(`place.${word}`, { n }) + rest : part;
  };
  return place.split(", ").map(named).join(", ");
}
