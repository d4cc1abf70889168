--- Which workspaces may run programs (compiler, your own binary). Asked once per root, kept across sessions.
local M = {}

local function store()
  return vim.fs.joinpath(vim.fn.stdpath('state'), 'hipsmith', 'trusted.json')
end

local function read()
  local file = io.open(store(), 'r')
  if not file then
    return {}
  end
  local ok, roots = pcall(vim.json.decode, file:read('a'))
  file:close()
  return ok and type(roots) == 'table' and roots or {}
end

function M.is_trusted(root)
  return root ~= nil and read()[root] == true
end

--- Remember the decision for good; written beside and renamed, so that a crash loses nothing.
function M.trust(root)
  local roots = read()
  roots[root] = true
  vim.fn.mkdir(vim.fs.dirname(store()), 'p')
  local temporary = store() .. '.new'
  local file, reason = io.open(temporary, 'w')
  if not file then
    vim.notify('hipsmith: the trust decision could not be saved: ' .. reason, vim.log.levels.WARN)
    return
  end
  file:write(vim.json.encode(roots))
  file:close()
  vim.uv.fs_rename(temporary, store())
end

--- Ask if needed, tell the server, and say whether programs may run.
function M.ensure(client)
  local root = client.root_dir or vim.fn.getcwd()
  if not M.is_trusted(root) then
    local question = ('hipsmith: optimizing runs the HIP compiler and programs of %s on this machine. Trust this workspace?'):format(root)
    if vim.fn.confirm(question, '&Trust\n&No', 2) ~= 1 then
      return false
    end
    M.trust(root)
  end
  if not (client.settings.hipsmith and client.settings.hipsmith.trusted) then
    client.settings = vim.tbl_deep_extend('force', client.settings or {}, { hipsmith = { trusted = true } })
    client:notify('workspace/didChangeConfiguration', { settings = client.settings })
  end
  return true
end

return M
