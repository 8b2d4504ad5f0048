import Control
import HTTPServices
import ProxyRuntime

// Commands for the mobile apps of the device registration API.

let appAddCommand = Command(
    name: "app add",
    summary:
        "Allow the server of an app to register devices. This command prints the app's MobileAppId and ApiToken. The daemon cannot show the ApiToken again.",
    arguments: "NAME",
    options: [
        Command.configOption,
        Command.Option(
            name: "--org", value: "ORG",
            help: "The organisation in the paths of the requests that the app's server sends."),
        Command.Option(
            name: "--id", value: "GUID",
            help: "The MobileAppId in the requests of the app's server (default: a new identifier)."),
        Command.Option(
            name: "--user", value: "TEMPLATE",
            help:
                "The SIP address of the app's users. The daemon replaces '{{user}}' by the UserId in a request (default: '{{user}}')."
        ),
        Command.Option(
            name: "--apns-param", value: "PARAM",
            help: "The push parameter 'pn-param' of devices that register an ApnsDeviceToken."),
        Command.Option(
            name: "--apns-provider", value: "PROVIDER",
            help:
                "The push parameter 'pn-provider' of devices that register an ApnsDeviceToken: 'apns' (default) or 'apns.dev'.",
            choices: ["apns", "apns.dev"]),
        Command.Option(
            name: "--fcm-param", value: "PARAM",
            help: "The push parameter 'pn-param' of devices that register an FcmDeviceToken."),
    ],
    examples: ["app add shop --org example-org --apns-param ABCDE12345.com.example.phone.voip --fcm-param my-project"]
) { invocation throws(Command.Failure) in
    let name = try invocation.onlyArgument("NAME")
    guard APIKey.isName(name) else { throw .usage("the name is up to 64 letters, digits, '-', '_' and '.'") }
    guard let org = invocation.value("--org") else { throw .usage("expected --org") }
    let token = try offline { () throws(StartError) in try AppToken.make() }
    var request = AppRequest(name: name, id: invocation.value("--id") ?? AppRequest.newID(), org: org, token: token)
    request.user = invocation.value("--user")
    request.apnsProvider = invocation.value("--apns-provider")
    request.apnsParam = invocation.value("--apns-param")
    request.fcmParam = invocation.value("--fcm-param")
    try await invocation.askDaemon { [request] control throws(Command.Failure) in
        try await control.put("/v1/apps", request)
    } orStore: { [request] store throws(StartError) in
        try store.add(request)
    }
    say("MobileAppId".padded(to: 14) + request.id)
    say("ApiToken".padded(to: 14) + token.text)
}

let appListCommand = Command(
    name: "app list", summary: "List the apps whose servers are allowed to register devices.",
    options: Command.listOptions,
    examples: ["app list --json"]
) { invocation throws(Command.Failure) in
    let apps: [AppReport] = try await invocation.askDaemon { control throws(Command.Failure) in
        try await control.get("/v1/apps")
    } orStore: { store throws(StartError) in
        try store.mobileApps()
    }
    if try invocation.printJSON(apps) { return }
    let table = Table(("NAME", 20), ("ID", 38), ("ORG", 20), ("SINCE", 22), ("USER", 24), ("PARAMS", 0))
    for app in apps {
        let params = [app.apnsParam.map { "\(app.apnsProvider)=\($0)" }, app.fcmParam.map { "fcm=\($0)" }]
        table.row(
            app.name, app.id, app.org, app.createdAt.map(timeText) ?? "settings", app.user,
            params.compactMap(\.self).joined(separator: " "))
    }
}

let appRemoveCommand = Command.removing(
    "app remove", "Remove an app. The devices that the app has registered stay registered.",
    argument: "NAME|ID", from: "/v1/apps", example: "shop"
) { store, name throws(StartError) in
    try store.removeApp(name)
}
