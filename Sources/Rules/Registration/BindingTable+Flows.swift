package import Addressing
import Bytes
package import Timekeeping

/// Handles devices with several flows (RFC 5626). Each flow of a device is a binding, and all bindings with one
/// `+sip.instance` belong to one device.
///
/// The id of a device is the lowest id of its bindings. Calls, pushes and missed calls belong to the device, and can
/// use any flow of the device. All functions in `BindingTable+Flows` accept the id of any binding of the device.
extension BindingTable {
    /// The id of the device to which a binding belongs. A device with one binding has the id of the binding.
    package func device(of binding: DeviceID) -> DeviceID {
        guard let slot = slot(of: binding), self[slot].marks.contains(.isFlow) else { return binding }
        return flowSlots(besides: slot).map { self[$0].id }.min() ?? binding
    }

    /// All valid bindings of a device, best first. Bindings without a failed request come first, then bindings with an
    /// open connection, then bindings with a later registration.
    package func flows(of binding: DeviceID, now: Instant) -> [DeviceID] {
        guard let slot = slot(of: binding) else { return [] }
        guard self[slot].marks.contains(.isFlow) else { return isInForce(self[slot], now: now) ? [binding] : [] }
        return bestFirst(flowSlots(besides: slot), now: now).map { self[$0].id }
    }

    /// The user's devices with flows of RFC 5626, each with its valid flows, best flow first. ``flowDevices(of:now:)``
    /// reads each contact only once, for speed.
    func flowDevices(of aor: AddressOfRecord, now: Instant) -> [(device: DeviceID, flows: [UInt32])] {
        var devices: [ByteString: [UInt32]] = [:]
        var others: [[UInt32]] = []
        forEachSlot(of: aor) { slot in
            guard self[slot].marks.contains(.isFlow) else { return }
            if let flow = registrationFlow(at: slot) {
                devices[flow.instance, default: []].append(slot)
            } else {
                others.append([slot])
            }
        }
        return (Array(devices.values) + others).compactMap { slots in
            slots.map { self[$0].id }.min().map { ($0, bestFirst(slots, now: now)) }
        }
    }

    private func bestFirst(_ slots: [UInt32], now: Instant) -> [UInt32] {
        slots.filter { isInForce(self[$0], now: now) }
            .map { (slot: $0, rank: rank(of: $0)) }
            .sorted { $0.rank > $1.rank }
            .map(\.slot)
    }

    /// Whether the device of a binding has more than one binding.
    package func hasFurtherFlows(_ binding: DeviceID) -> Bool {
        guard let slot = slot(of: binding), self[slot].marks.contains(.isFlow) else { return false }
        return flowSlots(besides: slot).count > 1
    }

    /// Notes that a request on a flow got no response. The device's other flows are preferred until a message arrives
    /// on the failed flow, or the phone registers the flow again.
    package mutating func flowFailed(_ binding: DeviceID) {
        guard let slot = slot(of: binding), self[slot].marks.contains(.isFlow) else { return }
        self[slot].marks.insert(.hasFailed)
    }

    /// Notes that a message arrived on a failed flow, so that the flow works again.
    package mutating func flowRevived(_ binding: DeviceID) {
        guard let slot = slot(of: binding) else { return }
        self[slot].marks.remove(.hasFailed)
    }

    /// Whether the binding is a flow of RFC 5626, so its device can have several bindings.
    package func isFlow(_ binding: DeviceID) -> Bool {
        slot(of: binding).map { self[$0].marks.contains(.isFlow) } ?? false
    }

    /// The slots of all bindings of one device, including the binding in `slot`, oldest first.
    func flowSlots(besides slot: UInt32) -> [UInt32] {
        guard let own = registrationFlow(at: slot) else { return [slot] }
        var found: [UInt32] = []
        forEachSlot(of: aor(at: slot)) { other in
            guard self[other].marks.contains(.isFlow), let flow = registrationFlow(at: other) else { return }
            if flow.isOfSameDevice(as: own) { found.append(other) }
        }
        return found.isEmpty ? [slot] : found
    }

    private func registrationFlow(at slot: UInt32) -> RegistrationFlow? {
        ContactText.read(binding(at: slot).contact).flatMap(RegistrationFlow.init)
    }

    private func rank(of slot: UInt32) -> (Int, UnixTime, DeviceID) {
        let record = self[slot]
        let isOpen = record.pathLength > 0 || !flow(at: slot).isClosed
        return ((record.marks.contains(.hasFailed) ? 0 : 2) + (isOpen ? 1 : 0), record.registeredAt, record.id)
    }

    // MARK: A device that loses the binding whose number it has

    /// Stores the new id of a device with several flows, for the case that the binding in the slot is removed.
    mutating func noteHeir(of slot: UInt32) {
        guard self[slot].marks.contains(.isFlow) else { return }
        let id = self[slot].id
        let others = flowSlots(besides: slot).map { self[$0].id }.filter { $0 != id }
        if let successor = others.min(), id < successor { successors[id] = successor }
    }

    /// Removes and returns the new id of a device whose binding was removed; `nil` if the device has no other binding.
    /// The engine must call this method once after each removal, because the method returns the new id only once.
    package mutating func takeSuccessor(of removed: DeviceID) -> DeviceID? {
        guard !successors.isEmpty else { return nil }
        var successor = successors.removeValue(forKey: removed)
        // If the REGISTER has removed the binding with the new id too, the device gets the id of a third binding.
        while let gone = successor, slot(of: gone) == nil { successor = successors[gone] }
        return successor
    }
}
