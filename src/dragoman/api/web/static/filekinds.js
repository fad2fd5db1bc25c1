/** Kinds of files in words of people, and what comes back of each. Knows no server: that says which extensions it reads. */

const SAME = "the same file, with its formatting";

/** Title, extensions, and what comes back; what none of them has is of the last one. */
const KINDS = [
  ["Word, Writer", "docx docm dotx dotm odt ott fodt", SAME],
  ["PowerPoint, Impress", "pptx pptm ppsx ppsm potx potm odp otp fodp", SAME],
  ["Excel, Calc", "xlsx xlsm xltx xltm ods ots fods", "the same file; numbers and formulas stay"],
  ["Tables", "csv tsv tab", "the same table, with every column that has text translated"],
  ["PDF", "pdf", "a Word file of its text, without its layout"],
  ["Web pages, e-books", "html htm xhtml xht epub", SAME],
  ["Plain text, Markdown", "txt md markdown mdx qmd rmd", SAME],
  ["Subtitles", "srt vtt ass ssa", "the same file, with its times"],
  ["Texts of programs", "", "the same file; names, codes and placeholders stay"],
];

/** The kinds that some extensions are of: `[{title, extensions, back}]`. @param {string[]} extensions without dots */
export function kindsOf(extensions) {
  const listed = KINDS.map(([, of]) => of.split(" "));
  const kindOf = (extension) => listed.findIndex((of) => of.includes(extension));
  const of = (at) => extensions.filter((one) => kindOf(one) === (at === KINDS.length - 1 ? -1 : at));
  return KINDS.map(([title, , back], at) => ({ title, extensions: of(at), back })).filter(({ extensions }) => extensions.length);
}
