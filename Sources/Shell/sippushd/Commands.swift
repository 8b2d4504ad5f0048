/// All subcommands, in the order in which `--help` lists them.
let commands: [Command] = [
    serveCommand, checkConfigCommand, certCheckCommand, userAddCommand, userRemoveCommand, userListCommand,
    userPasswordCommand,
    providerListCommand, providerPauseCommand, providerResumeCommand, providerDisableCommand, providerEnableCommand,
    heldListCommand, heldEndCommand,
    drainCommand,
    bucketShowCommand, bucketEmptyCommand, messageListCommand, messageRemoveCommand, deviceShowCommand,
    deviceRemoveCommand, explainCommand,
    feedbackPullCommand, metricsCommand, backupCommand, keyAddCommand, keyListCommand, keyRemoveCommand, appAddCommand,
    appListCommand, appRemoveCommand, completionCommand, manPageCommand,
]
