package import Addressing
package import Calling
package import Collections
package import SIPTransactions
package import Timekeeping

/// Everything that waits for a device: calls, requests inside dialogs, ended calls, callers, messages and lists.
///
/// The desk has one record for each device. The engine reports a new wait, its end, and each change of the device. When the
/// device is there, the desk returns ``Release`` values in a fixed order, and the engine carries them out. The desk also
/// knows the flow on which a sign of life counts as the device's own.
package struct WakeDesk: ~Copyable {
    /// How long phones took to come back after former pushes.
    package var records = WakeRecords()
    /// Something that may go on, since its device is there.
    package enum Release {
        /// A call of an earlier run. The device has made the call and gets its responses.
        case caller(ProxiedRequest)
        /// Calls that ended before the device came. It gets the INVITE and the CANCEL of each.
        case endedCalls(ShortList<EndedCall>)
        /// A call that is offered to the device, or a request inside a dialog with it.
        case call(ProxiedRequest)
        /// The messages for the device.
        case messages
        /// The device's list of missed calls.
        case missedCalls
    }

    private struct Device {
        /// Oldest first, as long as the device's branch is not over.
        var calls = ShortList<ProxiedRequest>()
        /// The watched flow, if there is one: the device has registered there.
        var flow: Flow?
        /// The next device with the same watched flow: a phone may have several accounts.
        var next: UInt32?
        var further = BoxedOptional<Further>()
    }

    /// Waits that few devices have.
    private struct Further {
        var callers = ShortList<ProxiedRequest>()
        var endedCalls = ShortList<EndedCall>()
        /// The device did not take a message, or could not be reached. It is sent none before it is back.
        var isAsleep = false
        /// A push for messages has left since the device was here.
        var wasWoken = false
        /// The farewells whose answers the list of missed calls waits for.
        var farewells: Set<ClientTransactionID> = []
        /// When the list waits no longer.
        var listWaitsUntil = Instant.distantPast

        var isEmpty: Bool {
            callers.isEmpty && endedCalls.isEmpty && !isAsleep && !wasWoken && farewells.isEmpty
        }
    }

    private var devices = PlacedTable<DeviceID, Device>(empty: Device())
    /// The first device of each watched flow.
    private var flows = SlotIndex()

    package init() {}

    /// Nothing waits for any device.
    package var isEmpty: Bool { devices.isEmpty }

    /// No flow is watched.
    package var watchesNothing: Bool { flows.count == 0 }

    /// The calls that are offered to the device, oldest first.
    package func calls(of device: DeviceID) -> ShortList<ProxiedRequest> { devices[device]?.calls ?? ShortList() }

    // MARK: What waits

    /// The call is offered to the device.
    package mutating func waits(_ call: ProxiedRequest, for device: DeviceID) {
        let place = devices.madePlace(of: device)
        guard !devices[place].calls.contains(where: { $0 === call }) else { return }
        devices[place].calls.append(call)
    }

    /// The call has no branch for the device any more. After the last call only a message needs the watched flow.
    package mutating func noLongerWaits(_ call: ProxiedRequest, for device: DeviceID) {
        guard let place = devices.place(of: device), let index = devices[place].calls.firstIndex(where: { $0 === call })
        else { return }
        _ = devices[place].calls.remove(at: index)
        if devices[place].calls.isEmpty, !isAsleep(device) { leaveFlow(place) }
        removeIfIdle(device, at: place)
    }

    /// The device has made this call in an earlier run of the program.
    package mutating func waits(callerOf call: ProxiedRequest, for device: DeviceID) {
        change(device) { $0.callers.append(call) }
    }

    package var hasCallers: Bool { devices.all.contains { $0.value.further.value?.callers.isEmpty == false } }

    /// Callers of the earlier run do not come back.
    package mutating func callersGivenUp() {
        for device in devices.all.map(\.key) { changePresent(device) { $0.callers = ShortList() } }
    }

    /// The call is over, and devices that were woken for it have not come.
    package mutating func waits(_ ended: EndedCall) {
        for device in ended.reasons.keys { change(device) { $0.endedCalls.append(ended) } }
    }

    /// No device waits for the ended call any more.
    package mutating func noLongerWaits(_ ended: EndedCall) {
        for device in ended.reasons.keys { changePresent(device) { $0.endedCalls.removeAll { $0 === ended } } }
    }

    // MARK: Messages

    package func isAsleep(_ device: DeviceID) -> Bool { devices[device]?.further.value?.isAsleep == true }

    /// The device has not taken a message. It gets the next one when it is back.
    package mutating func fellAsleep(_ device: DeviceID) { change(device) { $0.isAsleep = true } }

    /// - Returns: whether the device is to be woken now: once, however many messages wait for it.
    package mutating func takesWake(_ device: DeviceID) -> Bool {
        guard devices[device]?.further.value?.wasWoken != true else { return false }
        change(device) { $0.wasWoken = true }
        return true
    }

    /// The push did not get to the device. The next message may wake it.
    package mutating func wakeFailed(_ device: DeviceID) { changePresent(device) { $0.wasWoken = false } }

    /// The device is back, or no message waits for it.
    ///
    /// - Returns: whether it was asleep.
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

    /// The list waits until the device has answered the INVITE of a call that is over. The device may show that call itself.
    /// It has two seconds for all such calls together.
    ///
    /// - Returns: when ``listIsDue(of:now:)`` is to be told; `nil` where it is known already.
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

    /// The device has answered, or will not.
    ///
    /// - Returns: whether the list goes now: it has waited for this answer last.
    package mutating func answered(_ device: DeviceID, farewell: ClientTransactionID) -> Bool {
        var isLast = false
        changePresent(device) { isLast = $0.farewells.remove(farewell) != nil && $0.farewells.isEmpty }
        return isLast
    }

    /// The list waits no longer, unless for another INVITE that went later.
    package mutating func listIsDue(of device: DeviceID, now: Instant) {
        changePresent(device) { if $0.listWaitsUntil <= now { $0.farewells = [] } }
    }

    // MARK: What becomes of the device

    /// The device has registered. Its flow is not watched any more.
    package mutating func returned(_ device: DeviceID) -> Releases {
        var releases = showedLife(device)
        releases.hasList = true
        return releases
    }

    /// The device has shown life on its watched flow: it may have no reason to register.
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

    /// The device is gone. Only a call whose request it has goes on.
    ///
    /// - Returns: the calls that are offered to it.
    package mutating func removed(_ device: DeviceID) -> ShortList<ProxiedRequest> {
        changePresent(device) { $0 = Further() }
        return calls(of: device)
    }

    /// The device has another number from now on.
    ///
    /// - Returns: its calls, which the engine renames too.
    package mutating func renamed(_ device: DeviceID, to heir: DeviceID) -> ShortList<ProxiedRequest> {
        guard let old = devices.place(of: device) else { return ShortList() }
        leaveFlow(old)
        let record = devices[old]
        devices.remove(at: old)
        for call in record.calls { waits(call, for: heir) }
        if let further = record.further.value {
            for ended in further.endedCalls { ended.renamed(device, to: heir) }
            change(heir) {
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

    /// The next sign of life on that flow is the device's, and releases what waits for it.
    package mutating func watch(_ flow: Flow, of device: DeviceID) {
        guard let place = devices.place(of: device), devices[place].flow != flow else { return }
        leaveFlow(place)
        devices[place].flow = flow
        guard var last = first(on: flow) else { return flows.insert(hash: Self.hash(flow), slot: place) }
        while let next = devices[last].next { last = next }
        devices[last].next = place
    }

    /// The flow has ended, and no sign of life can come from it.
    package mutating func flowEnded(_ flow: Flow) {
        while let place = first(on: flow) { leaveFlow(place) }
    }

    /// The devices whose watched flow it is.
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
    /// The releases of one device, in a fixed order. No memory is allocated for them.
    package struct Releases: Sequence, IteratorProtocol {
        package fileprivate(set) var callers = ShortList<ProxiedRequest>()
        package fileprivate(set) var endedCalls = ShortList<EndedCall>()
        package fileprivate(set) var calls = ShortList<ProxiedRequest>()
        /// The device has registered: its list of missed calls may go.
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
