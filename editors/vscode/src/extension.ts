import * as vscode from "vscode";
import { ExecuteCommandRequest, LanguageClient, State, type LanguageClientOptions } from "vscode-languageclient/node";
import { Proposals } from "./diff";
import { jobs as jobsRequest, jobStatus, type Job, type Preview } from "./protocol";
import { findServer, serverVersion } from "./server";

/** Named by the server in code actions and lenses. */
const previewCommand = "hipsmith.client.previewJob";

let client: LanguageClient | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel("hipsmith", { log: true });
  const status = vscode.window.createStatusBarItem("hipsmith", vscode.StatusBarAlignment.Left);
  status.name = "hipsmith";
  status.command = "hipsmith.jobs";
  const proposals = new Proposals();
  // One start at a time: a client that is starting cannot be stopped.
  let turn: Promise<void> = Promise.resolve();
  const again = () => (turn = turn.then(() => restart(context, log, view, proposals)));
  const view = new StatusView(status, log);

  context.subscriptions.push(
    log,
    status,
    proposals.register(),
    vscode.commands.registerCommand("hipsmith.restart", again),
    vscode.commands.registerCommand("hipsmith.showLog", () => log.show()),
    vscode.commands.registerCommand("hipsmith.jobs", () => pickJob(proposals)),
    vscode.commands.registerCommand("hipsmith.optimizeHere", optimizeHere),
    vscode.commands.registerCommand("hipsmith.acceptDiff", (uri?: vscode.Uri) => decideShown("hipsmith.acceptJob", proposals, uri)),
    vscode.commands.registerCommand("hipsmith.dismissDiff", (uri?: vscode.Uri) => decideShown("hipsmith.dismissJob", proposals, uri)),
    vscode.commands.registerCommand(previewCommand, (argument: { jobId: string }) => showDiff(argument.jobId, proposals)),
    // A workspace that becomes trusted may run programs from then on.
    vscode.workspace.onDidGrantWorkspaceTrust(again),
    vscode.workspace.onDidChangeConfiguration((change) => (change.affectsConfiguration("hipsmith.server.path") ? again() : undefined)),
  );
  await again();
}

export async function deactivate(): Promise<void> {
  await stop();
}

/** A client whose server failed to start or has died refuses to be stopped: there is nothing to stop then. */
async function stop(): Promise<void> {
  const old = client;
  client = undefined;
  if (old?.isRunning()) await old.stop().catch(() => undefined);
}

function settings(): Record<string, unknown> {
  const config = vscode.workspace.getConfiguration("hipsmith");
  return {
    target: config.get("target"),
    diagnostics: { run: config.get("diagnostics.run") },
    inlayHints: {
      enable: config.get("inlayHints.enable"),
      ldsBytes: config.get("inlayHints.ldsBytes"),
      occupancy: config.get("inlayHints.occupancy"),
    },
    optimize: { rounds: config.get("optimize.rounds"), program: config.get("optimize.program") },
    trusted: vscode.workspace.isTrusted,
  };
}

async function restart(
  context: vscode.ExtensionContext,
  log: vscode.LogOutputChannel,
  view: StatusView,
  proposals: Proposals,
): Promise<void> {
  await stop();
  const setting = vscode.workspace.getConfiguration("hipsmith").get<string>("server.path") ?? "";
  const server = findServer(setting, context.extensionPath);
  const found = await serverVersion(server);
  if ("problem" in found) {
    view.broken(found.problem);
    const answer = vscode.window.showErrorMessage(`hipsmith: ${found.problem}`, "Open the setting");
    void answer.then((chosen) => chosen && vscode.commands.executeCommand("workbench.action.openSettings", "hipsmith.server.path"));
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
      // Lenses and code actions come here too: a refusal is shown once, in the server's words.
      executeCommand: (command, args) => execute(command, args[0], proposals),
      workspace: {
        // Trust is the editor's knowledge, not a setting: it is added wherever settings travel.
        configuration: async (params) => params.items.map((item) => (item.section === "hipsmith" ? settings() : null)),
        didChangeConfiguration: async () => {
          await client?.sendNotification("workspace/didChangeConfiguration", { settings: { hipsmith: settings() } });
        },
      },
    },
  };
  const fresh = new LanguageClient("hipsmith", "hipsmith", { command: server, args: ["lsp"] }, options);
  client = fresh;
  fresh.registerFeature({
    fillClientCapabilities(capabilities) {
      const experimental = (capabilities.experimental ?? {}) as Record<string, unknown>;
      capabilities.experimental = { ...experimental, hipsmith: { previewDiff: true } } as typeof capabilities.experimental;
    },
    initialize() {},
    getState: () => ({ kind: "static" }),
    clear() {},
  });
  fresh.onNotification(jobStatus, (job) => view.job(job));
  fresh.onDidChangeState(({ newState }) => {
    if (client !== fresh) return;
    if (newState === State.Running) view.ready(found.version);
    if (newState === State.Stopped) view.broken("the server has stopped");
  });
  // The client itself shows why a start failed.
  await fresh.start().catch((error: Error) => view.broken(`the server did not start: ${error.message}`));
}

/** Run a server command. `undefined`: it was refused, and the reason has been shown. */
async function execute<T>(command: string, argument: unknown, proposals: Proposals): Promise<T | null | undefined> {
  if (!client?.isRunning()) {
    notRunning();
    return undefined;
  }
  try {
    const result = (await client.sendRequest(ExecuteCommandRequest.type, { command, arguments: [argument] })) as T | null;
    if (command === "hipsmith.acceptJob" || command === "hipsmith.dismissJob") await proposals.close((argument as { jobId: string }).jobId);
    return result;
  } catch (error) {
    void vscode.window.showErrorMessage(`hipsmith: ${(error as Error).message}`);
    return undefined;
  }
}

function notRunning(): void {
  const answer = vscode.window.showErrorMessage("hipsmith: the server is not running.", "Restart it", "Show the log");
  void answer.then((chosen) => chosen && vscode.commands.executeCommand(chosen === "Restart it" ? "hipsmith.restart" : "hipsmith.showLog"));
}

async function optimizeHere(): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (editor === undefined) {
    void vscode.window.showWarningMessage("hipsmith: no file is open; open one and move the cursor into a __global__ function.");
    return;
  }
  if (!client?.isRunning()) return notRunning();
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
  if (!client?.isRunning()) return notRunning();
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
  if (state === "finished") await showDiff(jobId, proposals);
  else if (state === "running" || state === "queued") {
    const answer = await vscode.window.showInformationMessage(`hipsmith: ${chosen.job.kernel} is ${state}.`, "Cancel the job");
    if (answer !== undefined) await execute("hipsmith.cancelJob", { jobId }, proposals);
  } else void vscode.window.showInformationMessage(`hipsmith: ${chosen.job.kernel}: ${chosen.job.message ?? state}`);
}

/** Show the diff; Accept and Dismiss stand in its title, and the text changes only on Accept. */
async function showDiff(jobId: string, proposals: Proposals): Promise<void> {
  const preview = await execute<Preview>("hipsmith.previewJob", { jobId }, proposals);
  if (preview?.newText != null) await proposals.show(preview);
}

async function decideShown(command: string, proposals: Proposals, uri?: vscode.Uri): Promise<void> {
  const shown = uri ?? vscode.window.activeTextEditor?.document.uri;
  const jobId = shown && proposals.jobOf(shown);
  if (jobId === undefined) void vscode.window.showWarningMessage("hipsmith: show the diff of a job first.");
  else await execute(command, { jobId }, proposals);
}

/** The one status bar item: health, or the job that runs. */
class StatusView {
  private version = "";
  private readonly running = new Map<string, Job>();
  constructor(
    private readonly item: vscode.StatusBarItem,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  ready(version: string): void {
    this.version = version;
    this.running.clear();
    this.draw();
  }
  broken(problem: string): void {
    this.log.error(problem);
    this.running.clear();
    this.item.backgroundColor = new vscode.ThemeColor("statusBarItem.errorBackground");
    this.item.text = "$(error) hipsmith";
    this.item.tooltip = problem;
    this.item.show();
  }
  job(job: Job): void {
    if (job.state === "running" || job.state === "queued") {
      this.running.set(job.jobId, job);
      this.draw();
      return;
    }
    this.running.delete(job.jobId);
    this.draw();
    void this.tell(job);
  }
  private async tell(job: Job): Promise<void> {
    const message = job.message ?? job.state;
    const text = `hipsmith: ${message.includes(job.kernel) ? message : `${job.kernel}: ${message}`}`;
    if (job.state === "failed") {
      void vscode.window.showWarningMessage(text);
      return;
    }
    const gain = job.state === "finished" && (job.speedup ?? 1) > 1;
    const answer = await vscode.window.showInformationMessage(text, ...(gain ? ["Show the diff"] : []));
    if (answer !== undefined) await vscode.commands.executeCommand(previewCommand, { jobId: job.jobId });
  }
  private draw(): void {
    const jobs = [...this.running.values()];
    const job = jobs.find(({ state }) => state === "running") ?? jobs[0];
    if (job === undefined) this.show("$(circuit-board) hipsmith", this.version);
    else this.show(`$(sync~spin) ${job.kernel} ${job.round ?? 0}/${job.rounds ?? 0}`, job.message ?? "");
  }
  private show(text: string, tooltip: string): void {
    this.item.backgroundColor = undefined;
    this.item.text = text;
    this.item.tooltip = tooltip;
    this.item.show();
  }
}
