import Addressing
import Collections

/// The devices that calls are offered to, and by which calls: looked at when a device registers, and, while a call waits
/// for it, when its flow shows life.
struct CalledDevices: ~Copyable {
    private struct Device {
        /// Oldest first, as long as the device's branch is not over.
        var calls = ShortList<Call>()
        /// The flow that it registered on, if it is waited for.
        var flow: Flow?
        /// The next device that is waited for on the same flow: of a phone with several accounts.
        var next: UInt32?
    }

    private var devices = PlacedTable<DeviceID, Device>(empty: Device())
    /// How many devices have calls.
    private var called = 0
    /// The first device that is waited for on each flow.
    private var flows = SlotIndex()

    var isEmpty: Bool { called == 0 }

    /// No flow is watched.
    var watchesNothing: Bool { flows.count == 0 }

    func calls(of device: DeviceID) -> ShortList<Call> { devices[device]?.calls ?? ShortList() }

    mutating func add(_ call: Call, to device: DeviceID) {
        let place = devices.madePlace(of: device)
        guard !devices[place].calls.contains(where: { $0 === call }) else { return }
        if devices[place].calls.isEmpty { called += 1 }
        devices[place].calls.append(call)
    }

    mutating func remove(_ call: Call, of device: DeviceID) {
        guard let place = devices.place(of: device), let index = devices[place].calls.firstIndex(where: { $0 === call })
        else { return }
        _ = devices[place].calls.remove(at: index)
        guard devices[place].calls.isEmpty else { return }
        called -= 1
        unwatch(device, at: place)
    }

    // MARK: Life

    /// A call waits for the device: its next sign of life on that flow matters.
    mutating func watch(_ flow: Flow, of device: DeviceID) {
        let place = devices.madePlace(of: device)
        guard devices[place].flow != flow else { return }
        leaveFlow(place)
        devices[place].flow = flow
        guard var last = first(on: flow) else { return flows.insert(hash: Self.hash(flow), slot: place) }
        while let next = devices[last].next { last = next }
        devices[last].next = place
    }

    /// No call waits for it any more, or its flow is gone.
    mutating func unwatch(_ device: DeviceID) {
        if let place = devices.place(of: device) { unwatch(device, at: place) }
    }

    private mutating func unwatch(_ device: DeviceID, at place: UInt32) {
        leaveFlow(place)
        if devices[place].calls.isEmpty { devices.remove(at: place) }
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

    /// The devices that are waited for on that flow.
    func waiting(on flow: Flow) -> [DeviceID] {
        var found: [DeviceID] = []
        var place = first(on: flow)
        while let present = place {
            if let device = devices.key(at: present) { found.append(device) }
            place = devices[present].next
        }
        return found
    }

    private func first(on flow: Flow) -> UInt32? {
        flows.find(hash: Self.hash(flow)) { devices[$0].flow == flow }
    }

    private static func hash(_ flow: Flow) -> UInt32 { UInt32(truncatingIfNeeded: flow.hashValue) }
}
