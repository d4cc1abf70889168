// The methods that hipsmith adds to LSP; docs/protocol.md is their description.
import { NotificationType, RequestType } from "vscode-languageclient/node";

export interface Job {
  jobId: string;
  state: "queued" | "running" | "finished" | "failed" | "cancelled";
  kernel: string;
  uri: string;
  message?: string;
  round?: number;
  rounds?: number;
  speedup?: number;
  evidence?: string;
}

export interface Preview {
  jobId: string;
  uri: string;
  version: number;
  oldText: string;
  newText: string;
  diff: string;
}

export const jobStatus = new NotificationType<Job>("hipsmith/jobStatus");
export const jobs = new RequestType<Record<string, never>, { jobs: Job[] }, void>("hipsmith/jobs");
