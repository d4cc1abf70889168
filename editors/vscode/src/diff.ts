// A finished job's diff, as two read-only documents that the editor compares.
import * as vscode from "vscode";
import type { Preview } from "./protocol";

const scheme = "hipsmith-proposal";

export class Proposals implements vscode.TextDocumentContentProvider {
  private readonly texts = new Map<string, string>();

  register(): vscode.Disposable {
    return vscode.workspace.registerTextDocumentContentProvider(scheme, this);
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.texts.get(uri.toString()) ?? "";
  }

  async show(preview: Preview): Promise<void> {
    const name = preview.uri.split("/").pop() ?? "kernel";
    const side = (which: string, text: string) => {
      const uri = vscode.Uri.from({ scheme, path: `/${preview.jobId}/${which}/${decodeURIComponent(name)}` });
      this.texts.set(uri.toString(), text);
      return uri;
    };
    const before = side("before", preview.oldText);
    const after = side("after", preview.newText);
    await vscode.commands.executeCommand("vscode.diff", before, after, `${decodeURIComponent(name)}: proposed by hipsmith (accept ✓, dismiss ✕)`);
  }

  /** The job whose diff `uri` is a side of. */
  jobOf(uri: vscode.Uri): string | undefined {
    return uri.scheme === scheme ? uri.path.split("/")[1] : undefined;
  }

  /** A decided job's diff is of no more use. */
  async close(jobId: string): Promise<void> {
    const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
    await vscode.window.tabGroups.close(
      tabs.filter(({ input }) => input instanceof vscode.TabInputTextDiff && this.jobOf(input.modified) === jobId),
    );
    for (const uri of this.texts.keys()) if (this.jobOf(vscode.Uri.parse(uri)) === jobId) this.texts.delete(uri);
  }
}
