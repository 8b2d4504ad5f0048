package import HTTPServices
import PushSending

/// The operations of the admin API, described for authors of clients.
extension RouteDescription {
    // MARK: Users

    static let users = RouteDescription("listUsers", "Users for digest authentication, by domain and name").page(.text)
        .answer(200, "A page of users, or all users as lines of JSON", UserPage.self)
        .answer(
            200, "A page of users, or all users as lines of JSON", .text, type: "application/x-ndjson"
        )
        .notRead()

    static let putUser = RouteDescription(
        "putUser", "Add a user, or change the password",
        detail: "Takes a password, or the HA1 hashes of RFC 7616 for the realm in the name."
    ).body(UserRequest.self).done("The user is stored.").notStored()

    static let user = RouteDescription("getUser", "Whether a user exists").user()
        .answer(200, "The user exists", UserReport.self).problem(404, noUser)

    static let removeUser = RouteDescription(
        "removeUser", "Remove a user", detail: "The user's registered devices stay registered until you remove them."
    ).user().done("The user is removed.").problem(404, noUser).notStored()

    // MARK: Users' rules for calls

    static let userRules = RouteDescription(
        "getUserRules", "A user's rules for calls",
        detail: "A user without rules gets an empty object. Users of databases can have rules too."
    ).user().answer(200, "The rules", UserRulesBody.self).problem(404, noUser)

    static let putUserRules = RouteDescription(
        "putUserRules", "Set a user's rules for calls",
        detail: "The rules replace the user's earlier rules. A rule can name only devices of the same user."
    ).user().body(UserRulesBody.self).done("The rules are stored, and apply to the next call.").problem(404, noUser)
        .notStored()

    static let removeUserRules = RouteDescription("removeUserRules", "Remove a user's rules for calls").user()
        .done("The user has no rules.").problem(404, noUser).notStored()

    // MARK: Users at a PBX

    static let upstreamDomains = RouteDescription(
        "listUpstreamDomains", "Domains whose users are kept registered at a PBX, and the state of each PBX"
    ).answer(200, "All of them", [UpstreamDomainReport].self)

    static let upstreamUsers = RouteDescription(
        "listUpstreamUsers", "Users who are kept registered at a PBX",
        detail: "A page may be short or empty although another one follows. Continue while the answer has a `next`."
    ).page(.number(0...Int64.max)).query("domain", "Only users of this domain.", .text(1...255))
        .answer(200, "A page of users", UpstreamUserPage.self)

    static let upstreamUser = RouteDescription("getUpstreamUser", "Whether the PBX knows a user, and why not").user()
        .answer(200, "The user's state", UpstreamUserReport.self).problem(404, noUpstreamUser)

    static let upstreamRetry = RouteDescription(
        "retryUpstream", "Register a user, or all users of a domain, at the PBX again",
        detail: "Also tries users whose password the PBX has refused."
    ).path("name", "`user@domain`, or a domain.").done("The users are registered one after the other.")
        .problem(404, noUpstreamUser)

    private static let noUpstreamUser = "No such user or domain is kept registered at a PBX."

    // MARK: Devices and missed calls

    static let devices = RouteDescription(
        "listDevices", "A user's devices, registered by SIP or reported over HTTP", detail: "Tokens are shortened."
    ).user().answer(200, "The devices", [BindingReport].self).problem(404, noName)

    static let removeDevice = RouteDescription(
        "removeUserDevice", "Remove a device, as if it had signed out",
        detail: "The daemon knows the device again after its next REGISTER."
    ).user().path("id", "The device's id or name from the list.").done("The device is removed.")
        .problem(404, "The user has no such device.").problem(409, "Several devices of the user have that name.")
        .notStored()

    static let bucket = RouteDescription("listMissedCalls", "A user's missed calls that are not reported yet")
        .user().answer(200, "The calls", [BucketEntryReport].self).problem(404, noName)

    static let emptyBucket = RouteDescription(
        "emptyBucket", "Delete a user's missed calls", detail: "Calls that still ring or wait stay."
    ).user().answer(200, "The number of deleted calls", RemovalReport.self).problem(404, noName).notStored()

    static let messages = RouteDescription(
        "listMessages", "Messages that wait for phones, oldest first", detail: "Their text is not shown."
    ).page(.number(0...Int64.max)).query("user", "`user@domain`: only messages for this user.", .text(1...512))
        .answer(200, "A page of messages", MessagePage.self).problem(404, noName)

    static let removeMessage = RouteDescription(
        "removeMessage", "Remove a message that waits",
        detail: "No phone gets the removed message. Its sender is not notified."
    ).path("id", "The message's id from the list.").done("The message is removed.").problem(
        404, "No message has that id."
    )
    .notStored()

    // MARK: Calls

    static let heldCalls = RouteDescription(
        "listHeldCalls", "Calls that wait for a phone or ring, oldest first",
        detail:
            "A page may be short or empty although another one follows. Continue while the answer has a `next`. Any node of a cluster answers for all nodes. The list has the oldest calls of each node first, and names the nodes that did not answer."
    ).page(.number(0...Int64.max)).answer(200, "A page of calls", HeldCallPage.self)

    static let endCall = RouteDescription("endHeldCall", "End a call that waits or rings")
        .path("id", "The call's id or `callRef` from the list, or its Call-ID.")
        .query(
            "status", "The final response to the caller. The default is 480.",
            .choice(ControlRoutes.endings.keys.sorted())
        )
        .query(
            "node", "The node at which the call waits. Needed if calls at several nodes have that name.", .text(1...32)
        )
        .done("The call is ended. Ringing phones are being cancelled.").problem(404, "No call has that id.")
        .problem(409, "Several calls have that name.").problem(502, "The node of the call refused the order.")
        .problem(504, "The node of the call did not answer.")

    // MARK: Providers

    static let providers = RouteDescription(
        "listProviders", "Push providers, with each app's counts of accepted and failed pushes"
    )
    .answer(200, "The configured providers", [ProviderReport].self)

    static func providerSwitch(_ word: String) -> RouteDescription {
        let summary =
            switch word {
            case "pause": "Pause a push provider: its devices stay, and nothing is sent to it"
            case "resume": "Send pushes to a paused provider again"
            default: "Switch a push provider on"
            }
        return RouteDescription("\(word)Provider", summary).provider().done("The provider's state is changed.")
            .problem(409, "The provider is not configured, or is disabled and must be enabled first.")
    }

    static let previewDisable = RouteDescription(
        "previewDisableProvider", "How many contacts would end if a push provider were switched off",
        detail: "This request changes nothing."
    ).path("name", "apns, fcm and so on.").problem(404, "No provider has that name.").answer(
        200, "The numbers", ProviderDisableReport.self
    ).problem(409, "The provider is not configured.")

    static let disableProvider = RouteDescription(
        "disableProvider", "Switch a push provider off",
        detail: "Contacts that only a push could reach end. `GET` of this path says beforehand how many."
    ).provider().answer(200, "It is switched", ProviderDisableReport.self).problem(
        409, "The provider is not configured.")

    private func provider() -> RouteDescription {
        path("name", "apns, fcm and so on.").problem(404, "No provider has that name.").notStored()
    }

    package static let feedback = RouteDescription("pullFeedback", "Ask Apple's feedback service for dead tokens now")
        .answer(200, "The numbers of removed and of ignored devices", FeedbackReport.self).problem(
            409, "push.apns.feedback.endpoint is not set.")

    static func explain(inPath: Bool) -> RouteDescription {
        let description = RouteDescription("explain", "Why a phone was woken for a call, or why not")
        let named =
            inPath
            ? description.path(
                "name", "`user@domain` or `user`, a Call-ID without slashes, a `callRef`, or the code of a push.")
            : description.query(
                "name", "As in the path. Here a Call-ID may contain slashes.", .text(1 ... .max), isRequired: true)
        return named.query(
            "limit", "The maximum number of records. The answer has the latest records. The default is 20.",
            .number(1...1000)
        )
        .query("words", "With `true`, the report also has the texts that `sippushd explain` prints.", .choice(["true"]))
        .answer(200, "The report", ExplainReport.self).notRead()
    }

    // MARK: Keys

    static let keys = RouteDescription("listKeys", "API keys, without the keys themselves")
        .answer(200, "All API keys", [APIKeyReport].self)

    static let addKey = RouteDescription(
        "addKey", "Add an API key",
        detail: "The caller generates the key: `spd_` and 43 characters of URL-safe base64. It sends only the hash."
    ).body(APIKeyRequest.self).done("The key is stored and valid.")
        .problem(409, "A key of that name exists, or the limit of keys is reached.").notStored()

    static let removeKey = RouteDescription("removeKey", "Remove an API key").path("name", "Its name.")
        .done("The key is refused from now on.").problem(404, "No API key has that name.").notStored()

    // MARK: Apps

    static let apps = RouteDescription("listApps", "Mobile apps whose servers may register devices")
        .answer(200, "All mobile apps", [AppReport].self)

    static let addApp = RouteDescription("addApp", "Add a mobile app")
        .body(AppRequest.self).done("The app is stored and may register devices.")
        .problem(409, "The name or the id is taken, or the limit of apps is reached.").notStored()

    static let removeApp = RouteDescription(
        "removeApp", "Remove a mobile app", detail: "The devices that this app has registered stay."
    ).path("name", "Its name or its id.").done("The app may no longer register devices.").problem(
        404, "There is no such app."
    )
    .problem(409, "The app is defined in the settings.").notStored()

    static let metrics = RouteDescription("getMetrics", "Metrics for Prometheus")
        .answer(200, "Text format 0.0.4", .text, type: "text/plain")

    // MARK: Parts

    private static let noUser = "There is no such user."
    private static let noName = "The name is not a `user@domain`."

    private func user() -> RouteDescription { path("user", "`user@domain`") }

    private func page(_ cursor: JSONSchema) -> RouteDescription {
        query("after", "The `next` of the previous page.", cursor)
            .query("limit", "The maximum number of entries on a page. The default is 100.", .number(1...1000))
    }
}
