import Persistence

/// The device registration API, for whoever writes a client: the API token in the body takes the place of a key.
extension RouteDescription {
    static let registration = RouteDescription("registerDevice", "Register a device of a user")
        .organisation().tracked().body(.deviceRegistration)
        .answer(202, accepted, DeviceRegistrationRoutes.Acceptance.self).notStored()

    static let registrations = RouteDescription("registerDevices", "Register up to 100 devices; a bad one refuses all")
        .organisation().tracked().body(.list(of: .deviceRegistration, 1...100))
        .answer(202, accepted, [DeviceRegistrationRoutes.Acceptance].self).notStored()

    static let outcomes = RouteDescription("getRegistrationStatus", "What became of tracked registrations")
        .organisation()
        .body(
            .object([
                "RegistrationRequestIds": .list(of: .guid, 0...1000), "MobileAppId": .guid,
                "ApiToken": .text(1 ... .max),
            ])
        )
        .answer(200, "In the order of the ids", .list(of: .outcome)).notRead()

    static let cleanup = RouteDescription("removeDevice", "Forget a device of a user, or all that this app registered")
        .organisation().body(.deviceCleanup).answer(202, "It is on the disk and is done now.").notStored()

    static let cleanups = RouteDescription("removeDevices", "The same for up to 100 users")
        .organisation().body(.either(.list(of: .deviceCleanup, 1...100), .deviceCleanup))
        .answer(202, "It is on the disk and is done now.").notStored()

    private static let accepted =
        "It is on the disk and is done now. The body is empty unless x-ms-track-registration was true."

    private func organisation() -> RouteDescription { path("org", "The organisation of the app's settings.") }

    private func tracked() -> RouteDescription {
        header("x-ms-track-registration", "`true` to be told an id to ask with.", .choice(["true", "false"]))
            .header("x-ms-callback-url", "Where the outcome is posted to, once; also x-ms-status-callback-url.")
            .header("x-ms-callback-url-headers", "Fields to add to that request: a JSON object of texts.")
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
            optional: ["DeviceToken": .text.orNull.described("Without it all of the user's in this app.")]))

    fileprivate static let outcome = shared(
        "Outcome",
        .object(
            ["Status": .choice(["Pending", "Success", "Failed"])],
            optional: ["FailureReason": .choice(DeviceFailure.allCases.map(\.rawValue))]))
}
