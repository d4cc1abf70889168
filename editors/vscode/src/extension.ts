import * as vscode from "vscode";
import { ExecuteCommandRequest, LanguageClient, State, type LanguageClientOptions } from "vscode-languageclient/node";
import { Proposals } from "./diff";
import { jobs as jobsRequest, jobStatus, type Job, type Preview } from "./protocol";
import { findServer, serverVersion } from "./server";

let client: LanguageClient | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel("hipsmith", { log: true });
  const status = vscode.window.createStatusBarItem("hipsmith", vscode.StatusBarAlignment.Left);
  status.name = "hipsmith";
  status.command = "hipsmith.jobs";
  const proposals = new Proposals();
  const view = new StatusView(status);

  context.subscriptions.push(
    log,
    status,
    proposals.register(),
    vscode.commands.registerCommand("hipsmith.restart", () => restart(context, log, view)),
    vscode.commands.registerCommand("hipsmith.showLog", () => log.show()),
    vscode.commands.registerCommand("hipsmith.jobs", () => pickJob(proposals)),
    vscode.commands.registerCommand("hipsmith.optimizeHere", optimizeHere),
    vscode.commands.registerCommand("hipsmith.client.previewJob", (argument: { jobId: string }) => decide(argument.jobId, proposals)),
    // A workspace that becomes trusted may run programs from then on.
    vscode.workspace.onDidGrantWorkspaceTrust(() => restart(context, log, view)),
  );
  await start(context, log, view);
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}

function settings(): Record<string, unknown> {
  const config = vscode.workspace.getConfiguration("hipsmith");
  return {
    target: config.get("target"),
    diagnostics: { run: config.get("diagnostics.run") },
    optimize: { rounds: config.get("optimize.rounds"), program: config.get("optimize.program") },
    trusted: vscode.workspace.isTrusted,
  };
}

async function start(context: vscode.ExtensionContext, log: vscode.LogOutputChannel, view: StatusView): Promise<void> {
  const setting = vscode.workspace.getConfiguration("hipsmith").get<string>("server.path") ?? "";
  const server = findServer(setting, context.extensionPath);
  const found = await serverVersion(server);
  if ("problem" in found) {
    view.broken(found.problem);
    void vscode.window.showErrorMessage(`hipsmith: ${found.problem}`);
    return;
  }
  log.info(`${found.version} (${server})`);
  const options: LanguageClientOptions = {
    documentSelector: [
      { scheme: "file", language: "cuda-cpp" },
      { scheme: "file", language: "cpp" },
      { scheme: "file", language: "c" },
      { scheme: "file", language: "hip" },
    ],
    initializationOptions: settings(),
    outputChannel: log,
    synchronize: { configurationSection: "hipsmith" },
    middleware: {
      workspace: {
        // Trust is the editor's knowledge, not a setting: it is added wherever settings travel.
        configuration: async (params) => params.items.map((item) => (item.section === "hipsmith" ? settings() : null)),
        didChangeConfiguration: async () => {
          await client?.sendNotification("workspace/didChangeConfiguration", { settings: { hipsmith: settings() } });
        },
      },
    },
  };
  client = new LanguageClient("hipsmith", "hipsmith", { command: server, args: ["lsp"] }, options);
  client.registerFeature({
    fillClientCapabilities(capabilities) {
      const experimental = (capabilities.experimental ?? {}) as Record<string, unknown>;
      capabilities.experimental = { ...experimental, hipsmith: { previewDiff: true } } as typeof capabilities.experimental;
    },
    initialize() {},
    getState: () => ({ kind: "static" }),
    clear() {},
  });
  client.onNotification(jobStatus, (job) => view.job(job));
  client.onDidChangeState(({ newState }) => {
    if (newState === State.Running) view.ready(found.version);
    if (newState === State.Stopped) view.broken("the server has stopped; see the log");
  });
  await client.start();
}

async function restart(context: vscode.ExtensionContext, log: vscode.LogOutputChannel, view: StatusView): Promise<void> {
  await client?.stop();
  client = undefined;
  await start(context, log, view);
}

function execute<T>(command: string, argument: unknown): Promise<T | undefined> {
  if (client === undefined) return Promise.resolve(undefined);
  return client.sendRequest(ExecuteCommandRequest.type, { command, arguments: [argument] }).then(
    (result) => result as T,
    (error: Error) => {
      void vscode.window.showErrorMessage(`hipsmith: ${error.message}`);
      return undefined;
    },
  );
}

async function optimizeHere(): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (editor === undefined) return;
  const actions = await vscode.commands.executeCommand<vscode.CodeAction[]>(
    "vscode.executeCodeActionProvider",
    editor.document.uri,
    editor.selection,
    "refactor.rewrite.hipsmith.optimize",
  );
  const command = actions?.find((action) => action.command?.command === "hipsmith.optimizeKernel")?.command;
  if (command === undefined) {
    void vscode.window.showWarningMessage("hipsmith: no kernel at the cursor; move it into a __global__ function.");
    return;
  }
  await vscode.commands.executeCommand(command.command, ...(command.arguments ?? []));
}

async function pickJob(proposals: Proposals): Promise<void> {
  if (client === undefined) return;
  const { jobs } = await client.sendRequest(jobsRequest, {});
  if (jobs.length === 0) {
    void vscode.window.showInformationMessage("hipsmith: no jobs in this session. Choose \"Optimize this kernel\" above a kernel.");
    return;
  }
  const chosen = await vscode.window.showQuickPick(
    jobs.map((job) => ({ label: job.kernel, description: `${job.state} ${job.round ?? 0}/${job.rounds ?? 0}`, detail: job.message, job })),
    { title: "hipsmith jobs" },
  );
  if (chosen === undefined) return;
  const { jobId, state } = chosen.job;
  if (state === "finished") await decide(jobId, proposals);
  else if (state === "running" || state === "queued") {
    const answer = await vscode.window.showInformationMessage(`hipsmith: ${chosen.job.kernel} is ${state}.`, "Cancel the job");
    if (answer !== undefined) await execute("hipsmith.cancelJob", { jobId });
  }
}

/** Show the diff, then ask; the text changes only on Accept. */
async function decide(jobId: string, proposals: Proposals): Promise<void> {
  const preview = await execute<Preview>("hipsmith.previewJob", { jobId });
  if (preview?.newText == null) return;
  await proposals.show(preview);
  const answer = await vscode.window.showInformationMessage("hipsmith: take over this change?", "Accept", "Dismiss");
  if (answer === "Accept") await execute("hipsmith.acceptJob", { jobId });
  if (answer === "Dismiss") await execute("hipsmith.dismissJob", { jobId });
}

/** The one status bar item: health, or the newest running job. */
class StatusView {
  private version = "";
  constructor(private readonly item: vscode.StatusBarItem) {}

  ready(version: string): void {
    this.version = version;
    this.show("$(circuit-board) hipsmith", version);
  }
  broken(problem: string): void {
    this.item.backgroundColor = new vscode.ThemeColor("statusBarItem.errorBackground");
    this.item.text = "$(error) hipsmith";
    this.item.tooltip = problem;
    this.item.show();
  }
  job(job: Job): void {
    if (job.state === "running" || job.state === "queued") {
      this.show(`$(sync~spin) ${job.kernel} ${job.round ?? 0}/${job.rounds ?? 0}`, job.message ?? "");
      return;
    }
    this.ready(this.version);
    if (job.message !== undefined) {
      const show = job.state === "failed" ? vscode.window.showWarningMessage : vscode.window.showInformationMessage;
      void show(`hipsmith: ${job.kernel}: ${job.message}`);
    }
  }
  private show(text: string, tooltip: string): void {
    this.item.backgroundColor = undefined;
    this.item.text = text;
    this.item.tooltip = tooltip;
    this.item.show();
  }
}
