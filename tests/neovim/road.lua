-- The whole road in a real Neovim: fault, fix, optimization, progress, diff, accept, still compiling.
-- Prints one line per step; any failure ends with exit code 1 and the step that failed.
local file, kernel = vim.env.ROAD_FILE, vim.env.ROAD_KERNEL

local function step(name, ok, detail)
  io.stdout:write(('%s %s%s\n'):format(ok and 'ok' or 'FAILED', name, detail and (': ' .. detail) or ''))
  if not ok then
    io.stdout:write('messages: ' .. vim.fn.execute('messages') .. '\n')
    vim.cmd('cquit 1')
  end
end

local function wait(ms, condition)
  return vim.wait(ms, condition, 20)
end

local function ours()
  return vim.tbl_filter(function(d)
    return d.source == 'hipsmith'
  end, vim.diagnostic.get(0))
end

local function find(code)
  for _, d in ipairs(ours()) do
    if d.code == code then
      return d
    end
  end
end

-- Answering the trust question is the person's part.
local asked
vim.fn.confirm = function(question)
  asked = question
  return 1
end
local progress = {}
vim.api.nvim_create_autocmd('LspProgress', {
  callback = function(event)
    table.insert(progress, event.data.params.value)
  end,
})

vim.cmd.edit(file)
step('filetype', vim.bo.filetype == 'hip', vim.bo.filetype)
step('server attached', wait(10000, function()
  return #vim.lsp.get_clients({ name = 'hipsmith', bufnr = 0 }) == 1
end))

local rule = vim.env.ROAD_RULE
step('diagnostic shown', wait(10000, function()
  return find(rule) ~= nil
end), rule)
local fault = find(rule)
step('diagnostic explains itself', #fault.message > 30, fault.message:gsub('\n', ' '))
local before = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n')
vim.api.nvim_win_set_cursor(0, { fault.lnum + 1, fault.col })
vim.lsp.buf.code_action({
  apply = true,
  context = { only = { 'quickfix' }, diagnostics = vim.lsp.diagnostic.from({ fault }) },
  filter = function(action)
    return action.isPreferred
  end,
})
step('fix applied', wait(10000, function()
  return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n') ~= before
end))
step('diagnostic gone', wait(10000, function()
  return find(rule) == nil
end))
vim.cmd.write()

vim.fn.search('\\<' .. kernel .. '\\>\\s*(', 'w')
local finished
vim.api.nvim_create_autocmd('User', {
  pattern = 'HipsmithJob',
  callback = function(event)
    if vim.list_contains({ 'finished', 'failed', 'cancelled' }, event.data.state) then
      finished = event.data
    end
  end,
})
vim.cmd('HipOptimize')
step('asked for trust', wait(10000, function()
  return asked ~= nil
end))
step('progress begins', wait(30000, function()
  return #progress > 0
end))
-- The person goes on working: a new fault is shown and a hover answered while rounds run.
vim.api.nvim_buf_set_lines(0, -1, -1, false, {
  '',
  '__global__ void written_meanwhile(int *out) {',
  '    unsigned int votes = __ballot(threadIdx.x & 1);',
  '    out[0] = votes;',
  '}',
})
step('typing is diagnosed while rounds run', wait(10000, function()
  return find(rule) ~= nil
end) and not finished)
local answers = vim.lsp.buf_request_sync(0, 'textDocument/hover', vim.lsp.util.make_position_params(0, 'utf-8'), 5000)
step('hover answers while rounds run', answers and not vim.tbl_isempty(answers) and not finished)
vim.api.nvim_buf_set_lines(0, -6, -1, false, {})
step('job ended', wait(300000, function()
  return finished ~= nil
end))
step('job won', finished.state == 'finished' and (finished.speedup or 0) > 1, vim.inspect(finished):gsub('%s+', ' '))
-- The end of the progress and the end of the job come by different roads, in either order.
local function kinds()
  local seen = {}
  for _, value in ipairs(progress) do
    seen[value.kind] = (seen[value.kind] or 0) + 1
  end
  return seen
end
step('progress seen', wait(10000, function()
  return kinds()['end'] ~= nil
end) and kinds().begin == 1 and (kinds().report or 0) > 0, vim.inspect(kinds()):gsub('%s+', ' '))
step('result at the kernel', wait(10000, function()
  return find('optimization-result') ~= nil
end), find('optimization-result') and find('optimization-result').message:gsub('\n', ' '))

local buffer = vim.api.nvim_get_current_buf()
local unchanged = table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n')
vim.cmd('HipDiff')
step('diff opened in a tab', wait(10000, function()
  return #vim.api.nvim_list_tabpages() == 2 and vim.wo.diff
end))
step('nothing changed before accept', table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n') == unchanged)
vim.api.nvim_feedkeys('a', 'mx', false)
step('accepted', wait(10000, function()
  return table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n') ~= unchanged
end))
step('result taken away', wait(10000, function()
  return find('optimization-result') == nil
end))
vim.api.nvim_buf_call(buffer, vim.cmd.write)
local built = vim.system({ 'hipcc', '--offload-arch=gfx906', '-O2', '-c', file, '-o', file .. '.o' }, { text = true }):wait()
step('still compiles', built.code == 0, built.stderr:sub(1, 300))
vim.cmd('checkhealth hipsmith')
local health = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n')
step('checkhealth is clean', not health:find('ERROR') and health:find('hipsmith ') ~= nil)
vim.cmd('qall!')
