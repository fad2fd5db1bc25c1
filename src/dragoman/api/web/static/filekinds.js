/** Kinds of files in words of people, and what comes back of each. Knows no server: that says which extensions it reads. */

import { t } from "./i18n.js";

/** Title, extensions, and what comes back, the first and the last by their keys; what none of them has is of the last one. */
const KINDS = [
  ["word", "docx docm dotx dotm odt ott fodt", "same"],
  ["slides", "pptx pptm ppsx ppsm potx potm odp otp fodp", "same"],
  ["sheets", "xlsx xlsm xltx xltm ods ots fods", "sheets"],
  ["tables", "csv tsv tab", "tables"],
  ["pdf", "pdf", "pdf"],
  ["pages", "html htm xhtml xht epub", "same"],
  ["plain", "txt md markdown mdx qmd rmd", "same"],
  ["subtitles", "srt vtt ass ssa", "subtitles"],
  ["programs", "", "programs"],
];

/** The kinds that some extensions are of: `[{title, extensions, back}]`. @param {string[]} extensions without dots */
export function kindsOf(extensions) {
  const listed = KINDS.map(([, of]) => of.split(" "));
  const kindOf = (extension) => listed.findIndex((of) => of.includes(extension));
  const of = (at) => extensions.filter((one) => kindOf(one) === (at === KINDS.length - 1 ? -1 : at));
  return KINDS.map(([title, , back], at) => ({ title: t(`kind.${title}`), extensions: of(at), back: t(`kind.back_${back}`) })).filter(({ extensions }) => extensions.length);
}
