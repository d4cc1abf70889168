--- Shows a job's result as a two-pane diff in a tab of its own. Nothing is changed here.
local M = {}

local function pane(name, text, filetype)
  local buf = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(buf, name)
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, vim.split(text, '\r?\n'))
  vim.bo[buf].filetype = filetype
  vim.bo[buf].modifiable = false
  vim.bo[buf].bufhidden = 'wipe'
  return buf
end

--- @param result table {jobId, uri, oldText, newText}
--- @param source integer the buffer the job was started from
function M.open(result, source)
  local filetype = vim.api.nvim_buf_is_valid(source) and vim.bo[source].filetype or 'cpp'
  local base = vim.fs.basename(vim.uri_to_fname(result.uri))
  vim.cmd('tab split')
  local tab = vim.api.nvim_get_current_tabpage()
  local stamp = ('%s#%d'):format(result.jobId, tab)
  local left = pane(('hipsmith://%s/before/%s'):format(stamp, base), result.oldText, filetype)
  vim.api.nvim_win_set_buf(0, left)
  vim.cmd('diffthis')
  vim.cmd('rightbelow vsplit')
  local right = pane(('hipsmith://%s/after/%s'):format(stamp, base), result.newText, filetype)
  vim.api.nvim_win_set_buf(0, right)
  vim.cmd('diffthis')
  local function close()
    if vim.api.nvim_tabpage_is_valid(tab) and #vim.api.nvim_list_tabpages() > 1 then
      vim.cmd(vim.api.nvim_tabpage_get_number(tab) .. 'tabclose')
    end
  end
  for _, buf in ipairs({ left, right }) do
    local function map(key, what, run)
      vim.keymap.set('n', key, run, { buffer = buf, desc = 'hipsmith: ' .. what })
    end
    map('a', 'accept this diff', function()
      close()
      require('hipsmith').accept(result.jobId)
    end)
    map('x', 'dismiss this result', function()
      close()
      require('hipsmith').dismiss(result.jobId)
    end)
    map('q', 'close the diff, decide later', close)
  end
  vim.wo.winbar = ' proposed by hipsmith:  a accept   x dismiss   q close'
end

return M
