--- What the server tells about its jobs, newest last. The server owns the truth; this is a view of it.
local M = { by_id = {}, order = {} }

local finished = { finished = true, failed = true, cancelled = true }

function M.on_status(job, ctx)
  if not M.by_id[job.jobId] then
    table.insert(M.order, job.jobId)
  end
  local before = M.by_id[job.jobId]
  job.client_id = ctx and ctx.client_id
  M.by_id[job.jobId] = job
  if finished[job.state] and not (before and finished[before.state]) then
    local level = job.state == 'failed' and vim.log.levels.WARN or vim.log.levels.INFO
    vim.notify(('hipsmith: %s: %s'):format(job.kernel, job.message or job.state), level)
  end
  vim.api.nvim_exec_autocmds('User', { pattern = 'HipsmithJob', data = job, modeline = false })
end

--- The newest job that `accept` says yes to, or the one named.
function M.pick(id, accept)
  if id then
    return M.by_id[id] or M.by_id[tonumber(id)]
  end
  for i = #M.order, 1, -1 do
    local job = M.by_id[M.order[i]]
    if accept(job) then
      return job
    end
  end
end

function M.list()
  if #M.order == 0 then
    vim.notify('hipsmith: no jobs in this session; put the cursor in a kernel and run :HipOptimize')
    return
  end
  local lines = {}
  for _, id in ipairs(M.order) do
    local job = M.by_id[id]
    local gain = job.speedup and ('%.2fx %s'):format(job.speedup, job.evidence or '') or ''
    table.insert(lines, ('%s  %-24s %-10s %s/%s  %s  %s'):format(id, job.kernel, job.state, job.round or 0, job.rounds or 0, gain, (job.message or ''):gsub('\n', ' ')))
  end
  vim.lsp.util.open_floating_preview(lines, 'text', { border = 'rounded', title = ' hipsmith jobs ', focus_id = 'hipsmith-jobs' })
end

return M
