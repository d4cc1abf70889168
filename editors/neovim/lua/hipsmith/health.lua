local M = {}
local health = vim.health

local function version_of(command)
  local ok, out = pcall(function()
    return vim.system(command, { text = true, timeout = 10000 }):wait()
  end)
  if not ok or out.code ~= 0 then
    return nil
  end
  return vim.trim((out.stdout ~= '' and out.stdout or out.stderr)):match('[^\n]*')
end

function M.check()
  health.start('hipsmith')
  if vim.fn.has('nvim-0.11') == 1 then
    health.ok('Neovim ' .. tostring(vim.version()))
  else
    health.error('Neovim 0.11 or later is needed')
  end

  local config = vim.lsp.config.hipsmith or {}
  local binary = type(config.cmd) == 'table' and config.cmd[1] or 'hipsmith'
  local version = version_of({ binary, '--version' })
  if version then
    health.ok(('%s (%s)'):format(version, vim.fn.exepath(binary)))
  else
    health.error(("'%s' does not run"):format(binary), {
      'Build it with: cargo build --release',
      "Put target/release on PATH, or set the path: vim.lsp.config('hipsmith', { cmd = { '/path/to/hipsmith', 'lsp' } })",
    })
  end
  if vim.lsp.is_enabled and vim.lsp.is_enabled('hipsmith') then
    health.ok('enabled')
  else
    health.warn('not enabled', { "Add to your init.lua: vim.lsp.enable('hipsmith')" })
  end

  local compiler = version_of({ 'hipcc', '--version' })
  if compiler then
    health.ok('hipcc: ' .. compiler)
  else
    health.warn('hipcc does not run: diagnostics work, resources and optimization need it', { 'Debian: apt install hipcc rocm-device-libs' })
  end

  local clients = vim.lsp.get_clients({ name = 'hipsmith' })
  if #clients == 0 then
    health.info('no buffer is attached now; open a .hip or .cu file to see more')
  end
  for _, client in ipairs(clients) do
    health.ok(('client %d serves %d buffer(s), positions in %s'):format(client.id, vim.tbl_count(client.attached_buffers), client.offset_encoding))
    for buf in pairs(client.attached_buffers) do
      for _, other in ipairs(vim.lsp.get_clients({ bufnr = buf, name = 'clangd' })) do
        if other.offset_encoding == client.offset_encoding then
          health.ok('clangd beside us on the same buffer uses the same position encoding')
        else
          health.warn(('clangd uses %s, hipsmith %s on buffer %d'):format(other.offset_encoding, client.offset_encoding, buf), {
            'Start clangd with --offset-encoding=' .. client.offset_encoding,
          })
        end
      end
    end
  end
  if not vim.tbl_contains((vim.lsp.config.clangd or {}).filetypes or {}, 'hip') then
    health.info("clangd does not attach to the filetype 'hip'; see :help hipsmith-clangd to add it")
  end
end

return M
