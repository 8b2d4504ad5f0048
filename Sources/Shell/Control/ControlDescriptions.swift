package import HTTPServices
import PushSending

/// What operators ask and order, for whoever writes a client of the admin API.
extension RouteDescription {
    // MARK: Users

    static let users = RouteDescription("listUsers", "Users for digest authentication, by domain and name").page(.text)
        .answer(200, "A page of users; or all that follow, a line of JSON for each", UserPage.self)
        .answer(
            200, "A page of users; or all that follow, a line of JSON for each", .text, type: "application/x-ndjson"
        )
        .notRead()

    static let putUser = RouteDescription(
        "putUser", "Add a user, or change the password",
        detail: "With a password, or with the HA1 hashes of RFC 7616 for the realm in the name."
    ).body(UserRequest.self).done("It is stored.").notStored()

    static let user = RouteDescription("getUser", "Whether there is a user").user()
        .answer(200, "There is", UserReport.self).problem(404, noUser)

    static let removeUser = RouteDescription(
        "removeUser", "Remove a user", detail: "Devices that are registered stay until they are removed."
    ).user().done("It is stored.").problem(404, noUser).notStored()

    // MARK: Devices and missed calls

    static let devices = RouteDescription(
        "listDevices", "A user's devices, registered by SIP or reported over HTTP", detail: "Tokens are shortened."
    ).user().answer(200, "The devices", [BindingReport].self).problem(404, noName)

    static let removeDevice = RouteDescription(
        "removeUserDevice", "Remove a device, as if it had signed out", detail: "It is back when it registers again."
    ).user().path("id", "Id or name, as the list has them.").done("It is stored.")
        .problem(404, "The user has no such device.").problem(409, "Several have that name.").notStored()

    static let bucket = RouteDescription("listMissedCalls", "A user's missed calls that are still to be reported")
        .user().answer(200, "The calls", [BucketEntryReport].self).problem(404, noName)

    static let emptyBucket = RouteDescription(
        "emptyBucket", "Forget a user's missed calls", detail: "Calls that are being offered stay."
    ).user().answer(200, "How many were forgotten", RemovalReport.self).problem(404, noName).notStored()

    static let messages = RouteDescription(
        "listMessages", "Messages that wait for phones, oldest first", detail: "What they say is not shown."
    ).page(.number(0...Int64.max)).query("user", "`user@domain`: this user's only.", .text(1...512))
        .answer(200, "A page of messages", MessagePage.self).problem(404, noName)

    static let removeMessage = RouteDescription(
        "removeMessage", "Remove a message that waits", detail: "No phone gets it any more; its sender is not told."
    ).path("id", "As the list has it.").done("It is removed.").problem(404, "There is no such message.").notStored()

    // MARK: Calls

    static let heldCalls = RouteDescription(
        "listHeldCalls", "Calls that wait for a phone or ring, oldest first",
        detail: "A page may be short, or empty, although there is another: go on while there is a `next`."
    ).page(.number(0...Int64.max)).answer(200, "A page of calls", HeldCallPage.self)

    static let endCall = RouteDescription("endHeldCall", "End a call that waits or rings")
        .path("id", "Id or `callRef`, as the list has them, or the Call-ID.")
        .query("status", "What the caller gets; 480 without it.", .choice(ControlRoutes.endings.keys.sorted()))
        .done("It is ended; ringing phones are being told.").problem(404, "There is no such call.")
        .problem(409, "Several calls have that Call-ID.")

    // MARK: Providers

    static let providers = RouteDescription("listProviders", "Push providers, and how each app's pushes have fared")
        .answer(200, "The configured providers", [ProviderReport].self)

    static func providerSwitch(_ word: String) -> RouteDescription {
        RouteDescription("\(word)Provider", "Switch a push provider \(word == "enable" ? "on" : "off")")
            .path("name", "apns, fcm and so on.").done("It is switched.").problem(404, "There is no such provider.")
            .problem(409, "It is not configured.").notStored()
    }

    package static let feedback = RouteDescription("pullFeedback", "Ask Apple's feedback service for dead tokens now")
        .answer(200, "What came of it", FeedbackReport.self).problem(409, "push.apns.feedback.endpoint is not set.")

    static func explain(inPath: Bool) -> RouteDescription {
        let description = RouteDescription("explain", "Why a phone was woken for a call, or why not")
        let named =
            inPath
            ? description.path(
                "name", "`user@domain` or `user`, a Call-ID without slashes, a `callRef`, or the code of a push.")
            : description.query(
                "name", "As in the path; a Call-ID may have slashes here.", .text(1 ... .max), isRequired: true)
        return named.query("limit", "Records of the store, the last ones; 20 without it.", .number(1...1000))
            .answer(200, "What is known", ExplainReport.self).notRead()
    }

    // MARK: Keys

    static let keys = RouteDescription("listKeys", "API keys, without the keys themselves")
        .answer(200, "All of them", [APIKeyReport].self)

    static let addKey = RouteDescription(
        "addKey", "Add an API key", detail: "Whoever adds it makes it up: `spd_` and 43 characters of URL-safe base64."
    ).body(APIKeyRequest.self).done("It is stored, and counts from now on.")
        .problem(409, "There is one of that name, or there are too many.").notStored()

    static let removeKey = RouteDescription("removeKey", "Remove an API key").path("name", "Its name.")
        .done("It is refused from now on.").problem(404, "There is no such key.").notStored()

    // MARK: Apps

    static let apps = RouteDescription("listApps", "Mobile apps whose servers may register devices")
        .answer(200, "All of them", [AppReport].self)

    static let addApp = RouteDescription("addApp", "Add a mobile app")
        .body(AppRequest.self).done("It is stored, and may register devices from now on.")
        .problem(409, "The name or the id is taken, or there are too many.").notStored()

    static let removeApp = RouteDescription(
        "removeApp", "Remove a mobile app", detail: "Devices that it has registered stay."
    ).path("name", "Its name or its id.").done("It may register no more.").problem(404, "There is no such app.")
        .problem(409, "It stands in the settings.").notStored()

    static let metrics = RouteDescription("getMetrics", "Figures for Prometheus")
        .answer(200, "Text format 0.0.4", .text, type: "text/plain")

    // MARK: Parts

    private static let noUser = "There is no such user."
    private static let noName = "The name is no `user@domain`."

    private func user() -> RouteDescription { path("user", "`user@domain`") }

    private func page(_ cursor: JSONSchema) -> RouteDescription {
        query("after", "The `next` of the page before.", cursor)
            .query("limit", "How many on a page; 100 without it.", .number(1...1000))
    }
}
