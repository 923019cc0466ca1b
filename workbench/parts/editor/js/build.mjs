// Builds the editor into one file, and gathers the licences of what is in it.
import { createHash } from "node:crypto";
import { build } from "esbuild";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

// A test compares it, so that no change of the source is left unbuilt.
const digest = createHash("sha256");
for (const name of readdirSync("src").sort()) digest.update(readFileSync(join("src", name)));
digest.update(readFileSync("package-lock.json"));

const result = await build({
  banner: { js: `/* Built from js/, sha256 ${digest.digest("hex")}. Licences: editor.licences.txt */` },
  entryPoints: ["src/main.js"],
  outfile: "../editor.js",
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "none",
  metafile: true,
});

const packages = new Set();
for (const input of Object.keys(result.metafile.inputs)) {
  const found = input.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//);
  if (found) packages.add(found[1]);
}
let text = "editor.js holds the following packages.\n";
for (const name of [...packages].sort()) {
  const home = join("node_modules", name);
  const about = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));
  if (!existsSync(join(home, "LICENSE"))) throw new Error(`${name} has no LICENSE`);
  const licence = readFileSync(join(home, "LICENSE"), "utf8").trim();
  text += `\n---- ${name} ${about.version} (${about.license})\n\n${licence}\n`;
}
writeFileSync("../editor.licences.txt", text);
