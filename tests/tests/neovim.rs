//! The road of a person in Neovim, driven through the real editor, server, compiler and simulator.

use std::time::Duration;

use hipsmith_process::{Cancel, Job, run};
use hipsmith_tests::{hipcc, hipsmith, nvim, root};

#[test]
fn fault_fix_optimization_diff_accept() {
    let (Some(nvim), Some(_)) = (nvim(), hipcc()) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("road.hip");
    std::fs::copy(root().join("tests/neovim/road.hip"), &file).unwrap();
    std::fs::write(dir.path().join("hipsmith.toml"), "").unwrap();
    let job = Job::new(nvim)
        .args(["--headless", "-u"])
        .arg(root().join("tests/neovim/init.lua"))
        .args(["-i", "NONE", "-n", "-c"])
        // An error in the script must end the editor with a failure, not leave it waiting for keys.
        .arg(
            "lua local ok, e = xpcall(dofile, debug.traceback, vim.env.HIPSMITH_ROOT .. '/tests/neovim/road.lua') \
             if not ok then io.stdout:write('FAILED ' .. e .. '\\n') vim.cmd('cquit 1') end",
        )
        .dir(dir.path())
        .env("HIPSMITH_ROOT", root())
        .env("HIPSMITH_BIN", hipsmith())
        .env("ROAD_FILE", &file)
        .env("ROAD_KERNEL", "rmsnorm")
        .env("ROAD_RULE", "ballot-in-32-bits")
        // No plugin, state or trust decision of the person running the tests may leak in.
        .env("XDG_CONFIG_HOME", dir.path().join("config"))
        .env("XDG_DATA_HOME", dir.path().join("data"))
        .env("XDG_STATE_HOME", dir.path().join("state"))
        .timeout(Duration::from_secs(420));
    let out = run(&job, &Cancel::new()).unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    println!("{said}");
    assert!(
        out.status.success() && said.contains("ok checkhealth is clean"),
        "{said}"
    );
}
