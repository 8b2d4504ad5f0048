import Addressing
import Bytes
import HTTPServices
import Persistence
import ProxyCore
import ProxyRuntime
import PushDelivery
import PushPlanning
import Registration
import Timekeeping

/// The operators' HTTP routes for the devices and the missed calls of a user. The lists need no pages, because settings
/// limit both (`registrar.max-contacts`, `bucket`).
extension ControlRoutes {
    func registerDevices(in router: inout ServiceRouter) {
        router.add("GET", "/v1/users/{}/devices", .devices) { call throws(ServiceProblem) in
            try await showDevices(call)
        }
        router.add("DELETE", "/v1/users/{}/devices/{}", .removeDevice) { call throws(ServiceProblem) in
            try await removeDevice(call)
        }
        router.add("GET", "/v1/users/{}/bucket", .bucket) { call throws(ServiceProblem) in
            let aor = try call.aor()
            // For an unknown user, the list of missed calls is empty too.
            call.answer(call.domains.permits(aor.host) ? await bucket(of: aor) : [])
        }
        router.add("DELETE", "/v1/users/{}/bucket", .emptyBucket) { call throws(ServiceProblem) in
            try await emptyBucket(call)
        }
    }

    func registerDevicesForNodes(in router: inout ServiceRouter) {
        router.add("GET", "/v1/users/{}/devices", .devices) { call throws(ServiceProblem) in
            try await showDevices(call)
        }
    }

    private func showDevices(_ call: ServiceCall) async throws(ServiceProblem) {
        let aor = try call.aor()
        guard call.domains.permits(aor.host) else { throw .noUser(aor) }
        await door.read(aor)
        let (isKnown, own, live) = await door.ask(.user(aor)) { engine, now in
            (
                engine.isKnown(aor), Self.devices(of: aor, engine, now: now),
                engine.timeline.underWay { $0.user == aor.user && $0.host == aor.host }
            )
        }
        guard isKnown || !own.isEmpty else { throw .noUser(aor) }
        let shown = await withStatesOfOthers(own, of: aor, for: call.domains)
        call.askStore { [store] in
            let agents = try await store.userAgents(of: shown.compactMap(\.device))
            let records = try await store.timeline(of: [.user(aor)], limit: Self.lastRecords, in: nil) + live
            call.answer(
                shown.map { device in
                    var device = device
                    // The engine's User-Agent has priority, because the store gets a new User-Agent some seconds after
                    // the REGISTER.
                    let said = device.userAgent ?? device.device.flatMap { agents[$0]?.string }
                    device.userAgent = said?.isEmpty == false ? said : nil
                    let last = records.last { $0.code != nil && "\($0.device.rawValue)" == device.id }
                    // Another node can know a later push, which is not in the store yet.
                    guard let last, last.requestedAt.seconds >= device.lastPushAt ?? 0 else { return device }
                    device.lastPushAt = last.requestedAt.seconds
                    device.lastPush = last.answer?.rawValue ?? last.delivery.rawValue
                    return device
                })
        }
    }

    /// Asks the nodes that have flows of the devices for the devices' states.
    private func withStatesOfOthers(
        _ devices: [BindingReport], of aor: AddressOfRecord, for domains: DomainScope
    ) async -> [BindingReport] {
        guard let nodes else { return devices }
        let others = Set(devices.compactMap(\.node)).subtracting([nodes.own])
        guard !others.isEmpty else { return devices }
        return devices.joined(
            with: await nodes.ask(
                "/v1/users/\(NodeQuestions.encoded("\(aor)"))/devices", for: domains, of: others))
    }

    /// How many of a user's newest timeline records are searched for the last push of each device.
    private static let lastRecords = 100

    private static func devices(of aor: AddressOfRecord, _ engine: ProxyEngine, now: Moment) -> [BindingReport] {
        engine.targets(of: aor, now: now).map { target in
            BindingReport(
                id: "\(target.id.rawValue)", name: target.id.name, contact: target.requestURI.string,
                flow: target.isReachable
                    ? "\(target.flow.transport.parameterName):\(target.flow.remote)" : nil,
                token: target.pushToken?.description, isFresh: target.isFresh,
                registeredAt: target.registeredAt.seconds,
                state: engine.state(of: target).rawValue,
                userAgent: engine.userAgentSaidLately(by: target.id)?.string,
                app: target.pushToken.flatMap { engine.appName(of: $0) }, node: engine.nodeName(of: target))
        }
    }

    /// Removes a device as if the phone had unregistered, so that calls no longer wait for the device.
    private func removeDevice(_ call: ServiceCall) async throws(ServiceProblem) {
        let aor = try call.aor()
        let name = call.parameter(1)
        call.changes("\(aor)")
        guard call.domains.permits(aor.host) else { throw .noDevice }
        await door.read(aor)
        let meant = await door.ask(.user(aor)) { engine, now in
            engine.targets(of: aor, now: now)
                .filter { $0.id.isNamed(name) || $0.pushToken?.description == name }.map(\.id)
        }
        if let device = meant.first { call.changes("\(aor) \(device.name)") }
        guard let device = meant.first else { throw .noDevice }
        // The text in the path can match several devices, because the tokens of two devices can begin with the same
        // characters. A name can belong to two devices, because earlier versions of the program sometimes created equal
        // names.
        guard meant.count == 1 else {
            throw ServiceProblem(409, "several devices are called \(name)", detail: "name one by its id")
        }
        let result = await door.report(of: aor) { engine, ticket, now in
            engine.devicesWithdrawn(.device(device), of: aor, ticket, now: now)
        }
        switch result {
        case .done(0): throw .noDevice
        case .done: call.answerDone()
        case .notSupported, .tooManyDevices, .malformed, .unavailable: throw .notStored
        }
    }

    private func bucket(of aor: AddressOfRecord) async -> [BucketEntryReport] {
        await door.read(aor)
        return await door.ask(.user(aor)) { engine, _ in
            engine.buckets.entries(of: aor).map { entry in
                BucketEntryReport(
                    callRef: entry.callRef.description, caller: entry.caller.string, date: entry.date.seconds,
                    isOver: entry.isOver, devices: entry.devices.map(\.name))
            }
        }
    }

    private func emptyBucket(_ call: ServiceCall) async throws(ServiceProblem) {
        let aor = try call.aor()
        call.changes("\(aor)")
        guard call.domains.permits(aor.host) else { return call.answer(RemovalReport(removed: 0)) }
        await door.read(aor)
        let calls = await door.ask(.user(aor)) { engine, _ in engine.buckets.entries(of: aor).filter(\.isOver) }
        guard !calls.isEmpty else { return call.answer(RemovalReport(removed: 0)) }
        try await write([.forgetMissedCalls(calls.map(\.callRef))])
        await door.ask(.user(aor)) { engine, now in engine.missedCallsForgotten(calls, of: aor, now: now) }
        call.answer(RemovalReport(removed: calls.count))
    }
}

extension ServiceProblem {
    fileprivate static func noUser(_ aor: AddressOfRecord) -> ServiceProblem {
        ServiceProblem(404, "no user is called \(aor)")
    }
    fileprivate static var noDevice: ServiceProblem { ServiceProblem(404, "no such device") }
}

extension BindingReport {
    static let unknownState = ProxyEngine.DeviceState.unknown.rawValue

    fileprivate var device: DeviceID? { UInt64(id).map { DeviceID(rawValue: $0) } }
}
