/// What apps report of their pushes, and figures, for whoever writes a client.
extension RouteDescription {
    private static let schemes = "The key may stand behind `Token` or `AppToken` as well as behind `Bearer`."

    static func mark(_ word: String) -> RouteDescription {
        RouteDescription("mark_\(word)", "An app says: push \(word)", detail: schemes)
            .push().device().answer(200, "It is kept; the same again is counted once.")
            .problem(404, "No such push, it did not go to that device, or no such device.").notStored()
    }

    static let allRead = RouteDescription("markAllRead", "All pushes of the device are read", detail: schemes)
        .device().answer(200, "It is kept.").problem(404, "No such device.").notStored()

    static let push = RouteDescription("getPush", "What became of one push").push()
        .answer(200, "For each device", PushReport.self).problem(404, "There is no such push.").notRead()

    /// `isByPush` for the path whose rows are always one for each push, and which therefore takes no `by`.
    static func statistics(isByPush: Bool) -> RouteDescription {
        var description = RouteDescription("getPushStatistics", "How pushes have fared, in numbers of devices")
        if !isByPush {
            description = description.query("by", "A row for each; day without it.", .choice(["day", "app", "push"]))
        }
        return
            description
            .query("from", "Unix seconds, or a day as 2026-11-21: pushes asked for then or later.", .time)
            .query("to", "Unix seconds, exclusive, or a day, inclusive.", .time)
            .query("app", "Of that app alone.")
            .query("limit", "Pushes on a page.", .number(1...Int64(PushStatistics.pageLimits.upperBound)))
            .query("after", "The `next` of the page before.", .number(0...Int64.max))
            .query("format", "The form of the answer; without it the Accept field says.", .choice(["json", "csv"]))
            .answer(
                200, "Rows",
                .object(["by": .text, "statistics": .list(of: .map(of: .anything))], optional: ["next": .number])
            )
            .answer(200, "Rows", .text, type: "text/csv").notRead()
    }

    static let deviceCode = RouteDescription("findDevice", "The code of a device, by its token", detail: schemes)
        .body(
            .object([
                "token": .text(1...4096),
                "platform": .choice(["android", "ios", "ios_sandbox", "web", "messenger"]),
            ])
        )
        .answer(201, "It is known", DeviceCodeRoutes.Answer.self).problem(404, "It is not known.")
        .problem(503, "Too many look for their devices.")

    static let deviceAccess = RouteDescription("noteDeviceAccess", "The app was opened; nothing is counted")
        .path("device", "Its code.").answer(200, "It is known.").problem(404, "It is not known.")

    private func push() -> RouteDescription { path("push", "The push's code, a GUID.") }

    private func device() -> RouteDescription {
        body(.object(["device": .text(1 ... .max).described("`/api/v1/devices/CODE/`, or the code alone.")]))
    }
}

extension JSONSchema {
    fileprivate static let time = text(pattern: "^([0-9]+|[0-9]{4}-[0-9]{2}-[0-9]{2})$")
}
