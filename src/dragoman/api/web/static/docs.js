/** The API's reference, made from `openapi.json`: operations, their bodies, examples and answers. */

import { byId, el } from "./dom.js";

function resolve(api, schema) {
  if (!schema?.$ref) return schema ?? {};
  return schema.$ref.replace("#/", "").split("/").reduce((found, key) => found[key], api);
}

function typeOf(api, schema) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.map((one) => typeOf(api, one)).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.type === "array") return `array of ${typeOf(api, schema.items ?? {})}`;
  return schema.type ?? "any";
}

function row(tag, cells) {
  return el("tr", {}, ...cells.map((cell) => el(tag, {}, cell)));
}

function fields(api, schema) {
  const found = resolve(api, schema);
  const required = new Set(found.required ?? []);
  const rows = Object.entries(found.properties ?? {}).map(([name, field]) =>
    row("td", [name, typeOf(api, field) + (required.has(name) ? "" : ", optional"), field.description ?? ""]),
  );
  if (rows.length === 0) return [];
  return [el("table", {}, row("th", ["Field", "Type", "Meaning"]), ...rows)];
}

function nested(api, schema, seen = new Set()) {
  const found = resolve(api, schema);
  const children = [found, ...Object.values(found.properties ?? {}), found.items ?? {}, ...(found.anyOf ?? [])];
  for (const child of children) {
    for (const one of [child, child.items ?? {}, ...(child.anyOf ?? [])]) {
      if (one.$ref && !seen.has(one.$ref)) {
        seen.add(one.$ref);
        nested(api, one, seen);
      }
    }
  }
  return seen;
}

function content(api, title, media) {
  if (!media) return [];
  const parts = [el("h3", {}, title)];
  const types = new Map(); // by their schema: an object that may also come as a form is shown once
  for (const [type, { schema }] of Object.entries(media)) {
    const key = JSON.stringify(schema);
    types.set(key, [...(types.get(key) ?? []), type]);
  }
  for (const { schema, example } of Object.values(media)) {
    const kinds = types.get(JSON.stringify(schema));
    if (!schema || !types.delete(JSON.stringify(schema))) continue;
    parts.push(el("p", {}, kinds.join(", ")), ...fields(api, schema));
    for (const ref of nested(api, schema)) {
      parts.push(el("h4", {}, ref.split("/").at(-1)), ...fields(api, { $ref: ref }));
    }
    const examples = example ? [example] : (resolve(api, schema).examples ?? []);
    for (const one of examples) {
      parts.push(el("pre", { tabindex: "0" }, typeof one === "string" ? one : JSON.stringify(one, null, 2)));
    }
  }
  return parts;
}

function parameters(api, found) {
  const properties = Object.fromEntries(found.map(({ name, schema, description }) => [name, { ...schema, description }]));
  const required = found.filter((one) => one.required).map((one) => one.name);
  return found.length ? [el("h3", {}, "Path, query and headers"), ...fields(api, { properties, required })] : [];
}

function operation(api, method, path, found) {
  const errors = Object.entries(found.responses).filter(([status]) => status >= "400");
  return el(
    "section",
    { class: "operation" },
    el("h2", {}, el("code", {}, `${method.toUpperCase()} ${path}`)),
    el("p", {}, found.summary ?? ""),
    el("p", {}, found.description ?? ""),
    ...parameters(api, found.parameters ?? []),
    ...content(api, "Body", found.requestBody?.content),
    ...content(api, "Answer", found.responses["200"]?.content),
    ...(errors.length ? [el("h3", {}, "Errors"), el("table", {}, ...errors.map(([status, one]) => row("td", [status, one.description])))] : []),
  );
}

const api = await (await fetch("openapi.json")).json();
byId("version").textContent = `${api.info.title} ${api.info.version}`;
const groups = new Map();
for (const [path, methods] of Object.entries(api.paths)) {
  for (const [method, found] of Object.entries(methods)) {
    const name = found.tags?.[0] ?? "dragoman";
    groups.set(name, [...(groups.get(name) ?? []), operation(api, method, path, found)]);
  }
}
byId("operations").append(
  ...[...groups].map(([name, operations], index) =>
    el("details", index === 0 ? { open: "" } : {}, el("summary", {}, `${name} (${operations.length})`), ...operations),
  ),
);
