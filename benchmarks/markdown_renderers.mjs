/* Makes pages of Markdown files for `markdown_files.py`, with the parsers of their tools, in a folder NPM_FOLDER with:

    npm install @docusaurus/mdx-loader gray-matter vitepress@1 markdown-it markdown-it-attrs markdown-it-footnote markdown-it-deflist markdown-it-mark

stdin and stdout are those of `markdown_renderers.py`. */

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const require = createRequire(join(process.env.NPM_FOLDER, 'package.json'))
const matter = require('gray-matter')
const body = (text) => text.replace(/^(---|\+\+\+)[ \t]*\r?\n[^]*?\n\1[ \t]*(?:\r?\n|$)/, '')
const escape = (text) => String(text ?? '').replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/"/g, '&quot;')

/* Templates run before Markdown is read, or have such names then: texts in quotes do not change the number. */
const titles = /(["'`])(?:(?!\1)[^\n])* (?:(?!\1)[^\n])*\1|\b(?:title|caption|alt|label|header|text|description)="[^"\n]*"/g
const number = (source) => String(parseInt(createHash('sha256').update(source.replace(titles, '')).digest('hex').slice(0, 12), 16))

/* ---- Docusaurus: its own loader's processor, which runs @mdx-js/mdx; the tree from which it makes JavaScript becomes HTML */

function html(node) {
  const children = () => (node.children ?? []).map(html).join('')
  if (node.type === 'text') return escape(node.value)
  if (node.type === 'comment') return `<!--${node.value}-->`
  if (node.type === 'mdxjsEsm') return `<script>${node.value}</script>`
  if (node.type.endsWith('Expression')) return `<code class="expression">${escape(node.value)}</code>`
  const attributes = node.attributes
    ? node.attributes.map((one) => [one.name ?? '...', one.value?.value ?? one.value])
    : Object.entries(node.properties ?? {})
  const name = node.tagName ?? node.name ?? (node.type === 'root' ? 'main' : 'fragment')
  return `<${name}${attributes.map(([key, value]) => ` ${key}="${escape(value)}"`).join('')}>${children()}</${name}>`
}

async function docusaurus() {
  const { createProcessorUncached } = require('@docusaurus/mdx-loader/lib/processor')
  const preprocess = require('@docusaurus/mdx-loader/lib/preprocessor').default
  let page = ''
  const markdownConfig = {
    format: 'mdx', mermaid: false, emoji: true, preprocessor: undefined, anchors: { maintainCase: false }, remarkRehypeOptions: undefined,
    mdx1Compat: { comments: true, admonitions: true, headingIds: true },
    hooks: { onBrokenMarkdownLinks: 'ignore', onBrokenMarkdownImages: 'ignore' },
  }
  const dump = () => (root) => { page = html(root) }
  const options = { markdownConfig, admonitions: true, staticDirs: [], siteDir: '/', removeContentTitle: false, rehypePlugins: [dump] }
  const processor = await createProcessorUncached({ options, format: 'mdx' })
  return async (text, path) => {
    const { data, content } = matter(text)
    const prepared = preprocess({ fileContent: content, filePath: path, markdownConfig, admonitions: true })
    await processor.process({ content: prepared, filePath: path, frontMatter: data, compilerName: 'server' })
    return page
  }
}

/* ---- VitePress: its own renderer, without highlighting */

async function vitepress() {
  const { createMarkdownRenderer } = await import(pathToFileURL(join(process.env.NPM_FOLDER, 'node_modules/vitepress/dist/node/index.js')))
  const options = { highlight: (code) => `<pre><code>${escape(code)}</code></pre>`, anchor: { permalink: false } }
  const renderer = await createMarkdownRenderer('/', options)
  return async (text, path) => renderer.render(body(text).replace(/^[ \t]*<<<.*$/gm, number), { path }) // files of code
}

/* ---- others: markdown-it with what their tools add */

async function plain(tool) {
  const MarkdownIt = require('markdown-it')
  const renderer = new MarkdownIt({ html: true, linkify: true })
  for (const name of ['footnote', 'deflist', ...(tool === 'Obsidian' ? ['mark'] : [])]) {
    const plugin = require(`markdown-it-${name}`)
    renderer.use(plugin.default ?? plugin)
  }
  if (tool === 'Hugo') renderer.use(require('markdown-it-attrs'))
  const notation = tool === 'Hugo' ? /\{\{[<%][^]*?[%>]\}\}/g : /(?<!\\)(?<=\[\[)[^\[\]|`\n]+(?=[^\[\]`\n]*\]\])/g // a shortcode; a wiki link's page
  return async (text) => renderer.render(body(text).replace(notation, number), {})
}

const asked = JSON.parse(readFileSync(0, 'utf8'))
const render = await (asked.tool === 'Docusaurus' ? docusaurus() : asked.tool === 'VitePress' ? vitepress() : plain(asked.tool))
const pages = {}
for (const name of asked.files) {
  const path = join(asked.tree, name)
  try {
    pages[name] = { page: await render(readFileSync(path, 'utf8'), path) }
  } catch (error) {
    pages[name] = { error: String(error.message ?? error).slice(0, 500) }
  }
}
console.log('\n' + JSON.stringify(pages))
