// Where the server binary is, and whether it runs.
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import * as path from "node:path";

/** The first that exists: the setting (`~` expanded), the binary inside the extension, the one on PATH. */
export function findServer(setting: string, extensionPath: string): string {
  if (setting !== "") {
    return setting.startsWith("~/") ? path.join(homedir(), setting.slice(2)) : setting;
  }
  const bundled = path.join(extensionPath, "server", "hipsmith");
  return existsSync(bundled) ? bundled : "hipsmith";
}

/** The server's version line, or a sentence that says why it does not run. */
export function serverVersion(server: string): Promise<{ version: string } | { problem: string }> {
  return new Promise((resolve) => {
    execFile(server, ["--version"], { timeout: 10_000 }, (error, stdout) => {
      if (error === null && stdout.startsWith("hipsmith ")) {
        resolve({ version: stdout.trim() });
      } else if (error !== null && (error as NodeJS.ErrnoException).code === "ENOENT") {
        resolve({ problem: `'${server}' was not found: build it with cargo build --release, or set hipsmith.server.path.` });
      } else {
        resolve({ problem: `'${server} --version' failed: ${error?.message ?? "it is another program"}` });
      }
    });
  });
}
