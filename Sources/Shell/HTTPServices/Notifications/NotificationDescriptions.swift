/// The HTTP routes for messages and silent pushes, described for authors of clients.
extension RouteDescription {
    private static let schemes = "The key may follow `Bearer`, `Token` or `AppToken`."

    static let notification = RouteDescription("sendNotification", "Send a message to devices", detail: schemes)
        .body(
            .object(
                [:],
                optional: [
                    "users": .list(of: .text(1...512), 0...100).described(
                        "Names of users. Required unless `devices` is given."),
                    "devices": .list(of: .text, 0...100).described("`/api/v1/devices/CODE/`, or only the codes."),
                    "title": .text(0...1024), "message": .text(0...8192), "is_silent": .flag,
                    "is_confirmation_needed": .flag, "use_in_badge": .flag, "destination_type": .text(0...256),
                    "destination_code": .text(0...1024), "image": .text(0...2048).described("A URL."),
                    "custom": .map(of: .anything),
                    "ttl": .number(0...).described(
                        "The time in seconds for which the provider keeps the push. The default is one day."),
                ])
        )
        .answer(202, "The message is being sent", NotificationService.Acceptance.self).problem(
            413, "`custom` is too long."
        )
        .problem(422, "The notification does not fit into a push.")
        .problem(503, "Too many notifications are being sent.")

    static let notificationMetrics = RouteDescription(
        "getNotificationMetrics", "The outcome of a message", detail: schemes
    ).path("id", "The code from the answer to the request.")
        .answer(200, "In numbers of devices", NotificationService.Metrics.self).problem(
            404, "No notification has that code."
        ).notRead()

    static func mediator(isForm: Bool) -> RouteDescription {
        let answer = JSONSchema(of: MediatorRoutes.Text.self)
        return RouteDescription(
            "mediate", "Send a message in the form of Acrobits' push server",
            detail: "The answer's `code` is the result: 200, 400, 404 or 500. \(schemes)"
        )
        .body(MediatorBody.schema, type: isForm ? "application/x-www-form-urlencoded" : "application/json")
        .answer(200, "See `code`", answer)
        .answer(400, "The request cannot be read", answer).answer(
            400, "The request cannot be read", .text, type: "text/plain"
        )
        .problem(400, "The request cannot be read").answer(503, "Too many notifications are being sent", answer)
    }
}
