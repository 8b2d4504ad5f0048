import Persistence

/// The operations of the device registration API, described for authors of clients. A request for device registration
/// has an API token in its body instead of a key.
extension RouteDescription {
    static let registration = RouteDescription("registerDevice", "Register a device of a user")
        .organisation().tracked().body(.deviceRegistration)
        .answer(202, accepted, DeviceRegistrationRoutes.Acceptance.self).notStored()

    static let registrations = RouteDescription(
        "registerDevices", "Register up to 100 devices; one malformed entry refuses all"
    )
    .organisation().tracked().body(.list(of: .deviceRegistration, 1...100))
    .answer(202, accepted, [DeviceRegistrationRoutes.Acceptance].self).notStored()

    static let outcomes = RouteDescription("getRegistrationStatus", "The status of tracked registrations")
        .organisation()
        .body(
            .object([
                "RegistrationRequestIds": .list(of: .guid, 0...1000), "MobileAppId": .guid,
                "ApiToken": .text(1 ... .max),
            ])
        )
        .answer(200, "In the order of the ids", .list(of: .outcome)).notRead()

    static let cleanup = RouteDescription(
        "removeDevice", "Remove a user's device, or all devices that this app registered for the user"
    )
    .organisation().body(.deviceCleanup).answer(202, "The request is stored and is carried out now.").notStored()

    static let cleanups = RouteDescription("removeDevices", "Remove devices of up to 100 users")
        .organisation().body(.either(.list(of: .deviceCleanup, 1...100), .deviceCleanup))
        .answer(202, "The request is stored and is carried out now.").notStored()

    private static let accepted =
        "The request is stored and is carried out now. The body is empty unless x-ms-track-registration was true."

    private func organisation() -> RouteDescription { path("org", "The organisation of the app's settings.") }

    private func tracked() -> RouteDescription {
        header(
            "x-ms-track-registration", "`true` to receive an id for asking for the status.", .choice(["true", "false"])
        )
        .header("x-ms-callback-url", "The URL to which the outcome is posted once; also x-ms-status-callback-url.")
        .header(
            "x-ms-callback-url-headers", "Header fields of the request to the callback URL: a JSON object of texts.")
    }
}

extension JSONSchema {
    fileprivate static let deviceRegistration = shared(
        "DeviceRegistration",
        .object(
            ["MobileAppId": .guid, "UserId": .text(1 ... .max), "ApiToken": .text(1 ... .max)],
            optional: [
                "ApnsDeviceToken": .text.orNull.described("This or FcmDeviceToken."),
                "FcmDeviceToken": .text.orNull.described("This or ApnsDeviceToken."),
            ]))

    fileprivate static let deviceCleanup = shared(
        "DeviceCleanup",
        .object(
            ["MobileAppId": .guid, "UserId": .text(1 ... .max), "ApiToken": .text(1 ... .max)],
            optional: [
                "DeviceToken": .text.orNull.described(
                    "Without this parameter, all devices of the user in this app are removed.")
            ]))

    fileprivate static let outcome = shared(
        "Outcome",
        .object(
            ["Status": .choice(["Pending", "Success", "Failed"])],
            optional: ["FailureReason": .choice(DeviceFailure.allCases.map(\.rawValue))]))
}
