// Runs without VS Code: what finds and judges the server binary, and what package.json promises.
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import test from "node:test";
import { buildSync } from "esbuild";

const dir = mkdtempSync(path.join(tmpdir(), "hipsmith-vscode-"));
buildSync({ entryPoints: ["src/server.ts"], bundle: true, platform: "node", format: "esm", outfile: path.join(dir, "server.mjs") });
const { findServer, serverVersion } = await import(path.join(dir, "server.mjs"));

function program(name, text) {
  const file = path.join(dir, name);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
  chmodSync(file, 0o755);
  return file;
}

test("the setting wins, then the bundled binary, then PATH", () => {
  assert.equal(findServer("/opt/hipsmith", dir), "/opt/hipsmith");
  assert.ok(findServer("~/bin/hipsmith", dir).endsWith("/bin/hipsmith"));
  assert.ok(!findServer("~/bin/hipsmith", dir).startsWith("~"));
  assert.equal(findServer("", dir), "hipsmith");
  const bundled = program("server/hipsmith", "#!/bin/sh\n");
  assert.equal(findServer("", dir), bundled);
});

test("a server that runs tells its version", async () => {
  const good = program("good", "#!/bin/sh\necho hipsmith 1.2.3\n");
  assert.deepEqual(await serverVersion(good), { version: "hipsmith 1.2.3" });
});

test("a missing, a failing and a foreign binary are told apart", async () => {
  assert.match((await serverVersion(path.join(dir, "none"))).problem, /was not found/);
  assert.match((await serverVersion(program("bad", "#!/bin/sh\nexit 3\n"))).problem, /failed/);
  assert.match((await serverVersion(program("other", "#!/bin/sh\necho gcc 12\n"))).problem, /another program/);
});

test("package.json declares exactly the commands that the extension registers for people", () => {
  const manifest = JSON.parse(readFileSync("package.json", "utf8"));
  const source = readFileSync("src/extension.ts", "utf8");
  const registered = [...source.matchAll(/registerCommand\("([^"]+)"/g)].map((m) => m[1]);
  const declared = manifest.contributes.commands.map((c) => c.command);
  assert.deepEqual(registered.filter((name) => !name.startsWith("hipsmith.client.")).sort(), declared.sort());
});

test("every setting that the server gets is declared", () => {
  const manifest = JSON.parse(readFileSync("package.json", "utf8"));
  const source = readFileSync("src/extension.ts", "utf8");
  const read = [...source.matchAll(/\.get(?:<[^>]+>)?\("([^"]+)"\)/g)].map((m) => `hipsmith.${m[1]}`);
  assert.ok(read.length >= 5);
  for (const name of read) assert.ok(name in manifest.contributes.configuration.properties, `${name} is not declared`);
});
