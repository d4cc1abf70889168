-- Picked up by `vim.lsp.enable('hipsmith')`; every field can be overridden with `vim.lsp.config('hipsmith', {...})`.
return {
  cmd = { 'hipsmith', 'lsp' },
  filetypes = { 'hip', 'cuda', 'cpp', 'c' },
  root_markers = { 'hipsmith.toml', 'compile_commands.json', '.git' },
  -- The diff of a finished job is shown by lua/hipsmith/diff.lua; without this the server opens a file.
  capabilities = { experimental = { hipsmith = { previewDiff = true } } },
  -- A table, so that the trust decision can be filled in before the server starts.
  init_options = { trusted = false },
  settings = { hipsmith = { trusted = false } },
  before_init = function(params, config)
    local trusted = require('hipsmith.trust').is_trusted(config.root_dir)
    params.initializationOptions = vim.tbl_extend('force', params.initializationOptions or {}, { trusted = trusted })
    config.settings = vim.tbl_deep_extend('force', config.settings or {}, { hipsmith = { trusted = trusted } })
  end,
  handlers = {
    ['hipsmith/jobStatus'] = function(_, job, ctx)
      require('hipsmith.jobs').on_status(job, ctx)
    end,
  },
}
