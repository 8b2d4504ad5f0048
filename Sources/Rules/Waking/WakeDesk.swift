package import Addressing
package import Calling
package import Collections
package import SIPTransactions
package import Timekeeping

/// Lists the work that waits for each device: calls, requests inside dialogs, ended calls, callers, messages and lists
/// of missed calls.
///
/// The engine tells ``WakeDesk`` about the begin and end of each wait and each change of a device. When a device
/// registers or sends a message on its flow, ``WakeDesk`` returns ``Release`` values to the engine, in a fixed order.
/// ``WakeDesk`` also stores the flow on which a message of each device is awaited.
package struct WakeDesk: ~Copyable {
    /// How long each phone took to register after earlier pushes.
    package var records = WakeRecords()
    /// Work that continues because its device has registered or sent a message on its flow.
    package enum Release {
        /// A call that the device made before the daemon restarted, and whose responses are now sent to the device.
        case caller(ProxiedRequest)
        /// Calls that ended before the device registered; the device gets the INVITE and the CANCEL of each call.
        case endedCalls(ShortList<EndedCall>)
        /// A call that is offered to the device, or a request inside a dialog with the device.
        case call(ProxiedRequest)
        /// MESSAGEs that wait for the device.
        case messages
        /// The device's list of missed calls.
        case missedCalls
    }

    private struct Device {
        /// The calls that have an active branch for the device, oldest first.
        var calls = ShortList<ProxiedRequest>()
        /// The flow on which the device has registered, if ``WakeDesk`` waits for messages on the flow.
        var flow: Flow?
        /// The slot of the next device on the same flow, because one phone can have several accounts.
        var next: UInt32?
        var further = BoxedOptional<Further>()
    }

    /// The kinds of waiting work that few devices have.
    private struct Further {
        var callers = ShortList<ProxiedRequest>()
        var endedCalls = ShortList<EndedCall>()
        /// Whether the device gets no message before its next REGISTER, because a message failed or the device was
        /// unreachable.
        var isAsleep = false
        /// Whether a push for messages was sent since the device's last REGISTER.
        var wasWoken = false
        /// The INVITEs of ended calls to the device; the list of missed calls waits for their responses.
        var farewells: Set<ClientTransactionID> = []
        /// The time at which the list of missed calls stops waiting for responses to INVITEs.
        var listWaitsUntil = Instant.distantPast

        var isEmpty: Bool {
            callers.isEmpty && endedCalls.isEmpty && !isAsleep && !wasWoken && farewells.isEmpty
        }
    }

    private var devices = PlacedTable<DeviceID, Device>(empty: Device())
    /// For each flow on which messages are awaited, the slot of the flow's first device.
    private var flows = SlotIndex()

    package init() {}

    /// Whether no work waits for any device.
    package var isEmpty: Bool { devices.isEmpty }

    /// Whether something waits for the device.
    package func isWaitedFor(_ device: DeviceID) -> Bool { devices[device] != nil }

    /// The devices for which something waits.
    package var waitedFor: [DeviceID] { devices.all.map(\.key) }

    /// Whether ``WakeDesk`` waits for messages on no flow.
    package var watchesNothing: Bool { flows.count == 0 }

    /// The calls that are offered to the device, oldest first.
    package func calls(of device: DeviceID) -> ShortList<ProxiedRequest> { devices[device]?.calls ?? ShortList() }

    // MARK: What waits

    /// Lists a call under a device to which the call is offered.
    package mutating func waits(_ call: ProxiedRequest, for device: DeviceID) {
        let place = devices.madePlace(of: device)
        guard !devices[place].calls.contains(where: { $0 === call }) else { return }
        devices[place].calls.append(call)
    }

    /// Removes a call from a device, because the call has no active branch for the device any more. If no other call
    /// waits for the device, the flow of the device is watched only if messages wait for the device.
    package mutating func noLongerWaits(_ call: ProxiedRequest, for device: DeviceID) {
        guard let place = devices.place(of: device), let index = devices[place].calls.firstIndex(where: { $0 === call })
        else { return }
        _ = devices[place].calls.remove(at: index)
        if devices[place].calls.isEmpty, !isAsleep(device) { leaveFlow(place) }
        removeIfIdle(device, at: place)
    }

    /// Lists a call under the device that made the call before the daemon restarted.
    package mutating func waits(callerOf call: ProxiedRequest, for device: DeviceID) {
        change(device) { $0.callers.append(call) }
    }

    package var hasCallers: Bool { devices.all.contains { $0.value.further.value?.callers.isEmpty == false } }

    /// Removes all callers from before the restart, because the time for connecting again has ended.
    package mutating func callersGivenUp() {
        for device in devices.all.map(\.key) { changePresent(device) { $0.callers = ShortList() } }
    }

    /// Lists an ended call under the devices that got a push for the call and have not registered.
    package mutating func waits(_ ended: EndedCall) {
        for device in ended.reasons.keys { change(device) { $0.endedCalls.append(ended) } }
    }

    /// Removes an ended call from all devices.
    package mutating func noLongerWaits(_ ended: EndedCall) {
        for device in ended.reasons.keys { changePresent(device) { $0.endedCalls.removeAll { $0 === ended } } }
    }

    // MARK: Messages

    package func isAsleep(_ device: DeviceID) -> Bool { devices[device]?.further.value?.isAsleep == true }

    /// Notes that the device did not accept a message, so that the device gets no message before its next REGISTER.
    package mutating func fellAsleep(_ device: DeviceID) { change(device) { $0.isAsleep = true } }

    /// Whether the device must get a push for a message now; one push is sent for all waiting messages of the device.
    package mutating func takesWake(_ device: DeviceID) -> Bool {
        guard devices[device]?.further.value?.wasWoken != true else { return false }
        change(device) { $0.wasWoken = true }
        return true
    }

    /// Notes that the push did not reach the device, so that the next message can cause another push.
    package mutating func wakeFailed(_ device: DeviceID) { changePresent(device) { $0.wasWoken = false } }

    /// Notes that the device gets its messages, or that no message waits for the device. The result says whether the
    /// device was asleep.
    @discardableResult
    package mutating func messagesGo(to device: DeviceID) -> Bool {
        var wasAsleep = false
        changePresent(device) {
            wasAsleep = $0.isAsleep
            $0.isAsleep = false
            $0.wasWoken = false
        }
        return wasAsleep
    }

    // MARK: The list of missed calls

    /// Lets the list of missed calls wait for the device's response to an ended call's INVITE, because the device can
    /// show the missed call itself.
    ///
    /// The device has two seconds to answer the INVITEs of all ended calls together.
    ///
    /// - Returns: the instant at which ``listIsDue(of:now:)`` must be called; `nil` if the same instant was returned
    ///   before.
    package mutating func listWaits(for device: DeviceID, answering farewell: ClientTransactionID, now: Instant)
        -> Instant?
    {
        var until: Instant?
        change(device) {
            if $0.farewells.isEmpty {
                $0.listWaitsUntil = now + Self.patience
                until = $0.listWaitsUntil
            }
            $0.farewells.insert(farewell)
        }
        return until
    }

    package static let patience: Duration = .seconds(2)

    package func listWaits(for device: DeviceID) -> Bool { devices[device]?.further.value?.farewells.isEmpty == false }

    /// Notes that the device has answered the INVITE of an ended call, or will not answer the INVITE.
    ///
    /// - Returns: whether the list of missed calls must be sent now, because no other response is awaited.
    package mutating func answered(_ device: DeviceID, farewell: ClientTransactionID) -> Bool {
        var isLast = false
        changePresent(device) { isLast = $0.farewells.remove(farewell) != nil && $0.farewells.isEmpty }
        return isLast
    }

    /// Ends the wait of the list of missed calls, unless the list waits for the response to a later INVITE.
    package mutating func listIsDue(of device: DeviceID, now: Instant) {
        changePresent(device) { if $0.listWaitsUntil <= now { $0.farewells = [] } }
    }

    // MARK: What becomes of the device

    /// Returns the work that continues after the device's REGISTER, and stops watching the device's flow.
    package mutating func returned(_ device: DeviceID) -> Releases {
        var releases = showedLife(device)
        releases.hasList = true
        return releases
    }

    /// Returns the work that continues after a message on the device's flow, because an awake device may have no reason
    /// to register.
    package mutating func showedLife(_ device: DeviceID) -> Releases {
        var releases = Releases()
        guard let place = devices.place(of: device) else { return releases }
        leaveFlow(place)
        releases.calls = devices[place].calls
        if let further = devices[place].further.value {
            releases.callers = further.callers
            releases.endedCalls = further.endedCalls
            changePresent(device) {
                $0.callers = ShortList()
                $0.endedCalls = ShortList()
            }
        }
        return releases
    }

    /// Removes the waiting work of a removed device, and returns the calls that are offered to the device. A call to a
    /// removed device continues only if the device already has the INVITE.
    package mutating func removed(_ device: DeviceID) -> ShortList<ProxiedRequest> {
        changePresent(device) { $0 = Further() }
        return calls(of: device)
    }

    /// Replaces the device's id by `successor`, and returns the device's calls, in which the engine replaces the id.
    package mutating func renamed(_ device: DeviceID, to successor: DeviceID) -> ShortList<ProxiedRequest> {
        guard let old = devices.place(of: device) else { return ShortList() }
        leaveFlow(old)
        let record = devices[old]
        devices.remove(at: old)
        for call in record.calls { waits(call, for: successor) }
        if let further = record.further.value {
            for ended in further.endedCalls { ended.renamed(device, to: successor) }
            change(successor) {
                $0.callers += further.callers
                $0.endedCalls += further.endedCalls
                $0.isAsleep = $0.isAsleep || further.isAsleep
                $0.wasWoken = $0.wasWoken || further.wasWoken
            }
        }
        return record.calls
    }

    private mutating func change(_ device: DeviceID, _ body: (inout Further) -> Void) {
        devices[devices.madePlace(of: device)].further.change(orNew: Further(), body)
    }

    private mutating func changePresent(_ device: DeviceID, _ body: (inout Further) -> Void) {
        guard let place = devices.place(of: device), devices[place].further.value != nil else { return }
        devices[place].further.change(orNew: Further(), body)
        guard devices[place].further.value?.isEmpty == true else { return }
        devices[place].further = BoxedOptional()
        removeIfIdle(device, at: place)
    }

    private mutating func removeIfIdle(_ device: DeviceID, at place: UInt32) {
        guard devices[place].calls.isEmpty, devices[place].further.value == nil else { return }
        leaveFlow(place)
        devices.remove(at: place)
    }

    // MARK: Watched flows

    /// Watches a flow for messages, which continue the waiting work of the device.
    package mutating func watch(_ flow: Flow, of device: DeviceID) {
        guard let place = devices.place(of: device), devices[place].flow != flow else { return }
        leaveFlow(place)
        devices[place].flow = flow
        guard var last = first(on: flow) else { return flows.insert(hash: Self.hash(flow), slot: place) }
        while let next = devices[last].next { last = next }
        devices[last].next = place
    }

    /// Stops watching a closed flow for messages.
    package mutating func flowEnded(_ flow: Flow) {
        while let place = first(on: flow) { leaveFlow(place) }
    }

    /// The devices whose waiting work continues after a message on the flow.
    package func watched(on flow: Flow) -> [DeviceID] {
        var found: [DeviceID] = []
        var place = first(on: flow)
        while let present = place {
            if let device = devices.key(at: present) { found.append(device) }
            place = devices[present].next
        }
        return found
    }

    private mutating func leaveFlow(_ place: UInt32) {
        guard let flow = devices[place].flow, var before = first(on: flow) else { return }
        let next = devices[place].next
        devices[place].flow = nil
        devices[place].next = nil
        if before != place {
            while let other = devices[before].next, other != place { before = other }
            devices[before].next = next
        } else if let next {
            flows.replace(hash: Self.hash(flow), slot: place, with: next)
        } else {
            flows.remove(hash: Self.hash(flow), slot: place)
        }
    }

    private func first(on flow: Flow) -> UInt32? {
        flows.find(hash: Self.hash(flow)) { devices[$0].flow == flow }
    }

    private static func hash(_ flow: Flow) -> UInt32 { UInt32(truncatingIfNeeded: flow.hashValue) }
}

extension WakeDesk {
    /// The work that continues after a device has registered or sent a message on its flow, in a fixed order. The
    /// iteration allocates no memory.
    package struct Releases: Sequence, IteratorProtocol {
        package fileprivate(set) var callers = ShortList<ProxiedRequest>()
        package fileprivate(set) var endedCalls = ShortList<EndedCall>()
        package fileprivate(set) var calls = ShortList<ProxiedRequest>()
        /// Whether the device has registered, so that its list of missed calls can be sent.
        fileprivate(set) var hasList = false
        private var place = 0

        package mutating func next() -> Release? {
            defer { place += 1 }
            var index = place
            if index < callers.count { return .caller(callers[index]) }
            index -= callers.count
            if !endedCalls.isEmpty {
                if index == 0 { return .endedCalls(endedCalls) }
                index -= 1
            }
            if index < calls.count { return .call(calls[index]) }
            index -= calls.count
            switch index {
            case 0: return .messages
            case 1 where hasList: return .missedCalls
            default: return nil
            }
        }
    }
}
