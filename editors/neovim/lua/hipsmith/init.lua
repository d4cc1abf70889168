local jobs = require('hipsmith.jobs')
local M = {}

local function tell(message, level)
  vim.notify('hipsmith: ' .. message, level or vim.log.levels.INFO)
end

local function client_for(buf, id)
  local client = id and vim.lsp.get_client_by_id(id) or vim.lsp.get_clients({ name = 'hipsmith', bufnr = buf })[1]
  if not client then
    tell("no server on this buffer: run :checkhealth hipsmith", vim.log.levels.WARN)
  end
  return client
end

--- Ask the server to run a command; errors are shown, results handed on.
local function execute(client, command, argument, on_result, buf)
  client:request('workspace/executeCommand', { command = command, arguments = { argument } }, function(err, result)
    if err then
      tell(err.message, vim.log.levels.ERROR)
    elseif on_result then
      on_result(result)
    end
  end, buf or 0)
end

--- Runs for the lens, the code action and :HipOptimize alike: trust first, then the server.
function M.run_optimize(cmd, ctx)
  local client = client_for(ctx.bufnr, ctx.client_id)
  if not client or not require('hipsmith.trust').ensure(client) then
    return
  end
  execute(client, cmd.command, (cmd.arguments or {})[1], function(result)
    if result and result.jobId then
      tell(('job %s started; :HipJobs shows it'):format(result.jobId))
    end
  end, ctx.bufnr)
end

--- Optimize the kernel under the cursor. The server decides which kernel that is, by its code action.
function M.optimize(opts)
  local buf = vim.api.nvim_get_current_buf()
  local client = client_for(buf)
  if not client then
    return
  end
  local params = vim.lsp.util.make_range_params(0, client.offset_encoding)
  params.context = { diagnostics = {}, only = { 'refactor.rewrite.hipsmith.optimize' } }
  client:request('textDocument/codeAction', params, function(err, actions)
    if err then
      return tell(err.message, vim.log.levels.ERROR)
    end
    for _, action in ipairs(actions or {}) do
      local cmd = type(action.command) == 'table' and action.command or action
      if cmd.command == 'hipsmith.optimizeKernel' then
        if opts and opts.program and #opts.program > 0 then
          cmd.arguments[1].program = opts.program
        end
        return M.run_optimize(cmd, { bufnr = buf, client_id = client.id })
      end
    end
    tell('no kernel under the cursor: move it into a __global__ function', vim.log.levels.WARN)
  end, buf)
end

local function with_job(id, accept, what, run)
  local job = jobs.pick(id, accept)
  if not job then
    return tell(id and ('no job ' .. id) or ('no job to ' .. what), vim.log.levels.WARN)
  end
  local client = client_for(0, job.client_id)
  if client then
    run(client, job)
  end
end

local function is_finished(job)
  return job.state == 'finished'
end

function M.preview(id)
  with_job(id, is_finished, 'preview', function(client, job)
    local source = vim.uri_to_bufnr(job.uri)
    execute(client, 'hipsmith.previewJob', { jobId = job.jobId }, function(result)
      if result and result.newText then
        require('hipsmith.diff').open(result, source)
      else
        tell('this job has no diff: ' .. (job.message or job.state))
      end
    end)
  end)
end

function M.accept(id)
  with_job(id, is_finished, 'accept', function(client, job)
    execute(client, 'hipsmith.acceptJob', { jobId = job.jobId })
  end)
end

function M.dismiss(id)
  with_job(id, function(job)
    return job.state ~= 'running' and job.state ~= 'queued'
  end, 'dismiss', function(client, job)
    execute(client, 'hipsmith.dismissJob', { jobId = job.jobId })
  end)
end

function M.cancel(id)
  with_job(id, function(job)
    return job.state == 'running' or job.state == 'queued'
  end, 'cancel', function(client, job)
    execute(client, 'hipsmith.cancelJob', { jobId = job.jobId })
  end)
end

--- Show a rule's page, from the binary that serves this buffer.
function M.explain(rule)
  if not rule then
    local line = vim.api.nvim_win_get_cursor(0)[1] - 1
    for _, diagnostic in ipairs(vim.diagnostic.get(0, { lnum = line })) do
      if diagnostic.source == 'hipsmith' then
        rule = tostring(diagnostic.code)
        break
      end
    end
  end
  local config = vim.lsp.config.hipsmith or {}
  local binary = type(config.cmd) == 'table' and config.cmd[1] or 'hipsmith'
  local command = { binary, 'explain' }
  if rule then
    table.insert(command, rule)
  end
  local ok, out = pcall(function()
    return vim.system(command, { text = true, timeout = 5000 }):wait()
  end)
  if not ok then
    return tell(('%s could not be run; see :checkhealth hipsmith'):format(binary), vim.log.levels.ERROR)
  end
  if out.code ~= 0 then
    return tell(vim.trim(out.stderr), vim.log.levels.WARN)
  end
  vim.cmd('belowright new')
  local buf = vim.api.nvim_get_current_buf()
  vim.bo[buf].buftype = 'nofile'
  vim.bo[buf].bufhidden = 'wipe'
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, vim.split(out.stdout, '\n'))
  vim.bo[buf].filetype = 'markdown'
  vim.bo[buf].modifiable = false
end

return M
