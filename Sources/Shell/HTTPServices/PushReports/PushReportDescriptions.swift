/// The HTTP routes for apps' reports about pushes and for statistics, described for authors of clients.
extension RouteDescription {
    private static let schemes = "The key may follow `Bearer`, `Token` or `AppToken`."

    static func mark(_ word: String) -> RouteDescription {
        RouteDescription("mark_\(word)", "An app reports: push \(word)", detail: schemes)
            .push().device().answer(200, "The report is stored. Repeated reports count once.")
            .problem(404, "The push or the device does not exist, or the push did not go to that device.").notStored()
    }

    static let allRead = RouteDescription("markAllRead", "All pushes of the device are read", detail: schemes)
        .device().answer(200, "The report is stored.").problem(404, "No such device.").notStored()

    static let push = RouteDescription("getPush", "The outcome of one push").push()
        .answer(200, "For each device", PushReport.self).problem(404, "No push has that id.").notRead()

    /// Describes an HTTP route for statistics. If `isByPush` is true, each row is one push, and the HTTP route has no
    /// parameter `by`.
    static func statistics(isByPush: Bool) -> RouteDescription {
        var description = RouteDescription("getPushStatistics", "Push statistics, in numbers of devices")
        if !isByPush {
            description = description.query(
                "by", "The statistics have one row for each day, app or push. The default is day.",
                .choice(["day", "app", "push"]))
        }
        return
            description
            .query("from", "Unix seconds or a day such as 2026-11-21: pushes requested at that time or later.", .time)
            .query("to", "Unix seconds, exclusive, or a day, inclusive.", .time)
            .query("app", "Only pushes of this app.")
            .query(
                "domain",
                "The statistics count only pushes to users of this domain. By default, the statistics count the pushes of all domains of the key."
            )
            .query(
                "limit", "The maximum number of pushes on a page.",
                .number(1...Int64(PushStatistics.pageLimits.upperBound))
            )
            .query("after", "The `next` of the previous page.", .number(0...Int64.max))
            .query("format", "The form of the answer. By default, the Accept field decides.", .choice(["json", "csv"]))
            .answer(
                200, "Rows",
                .object(["by": .text, "statistics": .list(of: .map(of: .anything))], optional: ["next": .number])
            )
            .answer(200, "Rows", .text, type: "text/csv").notRead()
    }

    static let deviceCode = RouteDescription("findDevice", "Find the code of a device by its token", detail: schemes)
        .body(
            .object([
                "token": .text(1...4096),
                "platform": .choice(["android", "ios", "ios_sandbox", "web", "messenger"]),
            ])
        )
        .answer(201, "The device is known", DeviceCodeRoutes.Answer.self).problem(404, "The device is unknown.")
        .problem(503, "Too many searches for devices wait.")

    static let deviceAccess = RouteDescription("noteDeviceAccess", "The app was opened; nothing is counted")
        .path("device", "The device's code.").answer(200, "The device is known.").problem(404, "The device is unknown.")

    private func push() -> RouteDescription { path("push", "The push's code, a GUID.") }

    private func device() -> RouteDescription {
        body(.object(["device": .text(1 ... .max).described("`/api/v1/devices/CODE/`, or only the code.")]))
    }
}

extension JSONSchema {
    fileprivate static let time = text(pattern: "^([0-9]+|[0-9]{4}-[0-9]{2}-[0-9]{2})$")
}
