/// All subcommands, in the order in which `--help` lists them.
let commands: [Command] = [
    serveCommand, checkConfigCommand, doctorCommand, certCheckCommand, userAddCommand, userRemoveCommand,
    userListCommand,
    userPasswordCommand,
    providerListCommand, providerDisableCommand, providerEnableCommand, pushTestCommand, heldListCommand,
    heldEndCommand,
    drainCommand,
    bucketShowCommand, bucketEmptyCommand, messageListCommand, messageRemoveCommand, deviceShowCommand,
    deviceRemoveCommand, explainCommand,
    feedbackPullCommand, metricsCommand, backupCommand, keyAddCommand, keyListCommand, keyRemoveCommand, appAddCommand,
    appListCommand, appRemoveCommand, completionCommand, manPageCommand,
]
