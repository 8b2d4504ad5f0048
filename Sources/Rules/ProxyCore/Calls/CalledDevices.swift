import Addressing
import Collections

/// The devices that are being called, with their calls. A REGISTER looks its device up here. A sign of life looks its
/// flow up here, to release calls that wait for a device.
struct CalledDevices: ~Copyable {
    private struct Device {
        /// The calls in which the device's branch is not over, oldest first.
        var calls = ShortList<ProxiedRequest>()
        /// The flow that the device registered on, while a call waits for the device.
        var flow: Flow?
        /// The place of the next device on the same flow, if a call waits for that device too. A phone with several
        /// accounts is several devices on one flow.
        var next: UInt32?
    }

    private var devices = PlacedTable<DeviceID, Device>(empty: Device())
    /// The number of devices that have calls.
    private var called = 0
    /// The first device on each flow that a call waits for.
    private var flows = SlotIndex()

    var isEmpty: Bool { called == 0 }

    /// Whether no flow is watched for signs of life.
    var watchesNothing: Bool { flows.count == 0 }

    func calls(of device: DeviceID) -> ShortList<ProxiedRequest> { devices[device]?.calls ?? ShortList() }

    mutating func add(_ call: ProxiedRequest, to device: DeviceID) {
        let place = devices.madePlace(of: device)
        guard !devices[place].calls.contains(where: { $0 === call }) else { return }
        if devices[place].calls.isEmpty { called += 1 }
        devices[place].calls.append(call)
    }

    mutating func remove(_ call: ProxiedRequest, of device: DeviceID) {
        guard let place = devices.place(of: device), let index = devices[place].calls.firstIndex(where: { $0 === call })
        else { return }
        _ = devices[place].calls.remove(at: index)
        guard devices[place].calls.isEmpty else { return }
        called -= 1
        unwatch(device, at: place)
    }

    // MARK: Life

    /// A call waits for the device: from now on, a sign of life on that flow matters.
    mutating func watch(_ flow: Flow, of device: DeviceID) {
        let place = devices.madePlace(of: device)
        guard devices[place].flow != flow else { return }
        leaveFlow(place)
        devices[place].flow = flow
        guard var last = first(on: flow) else { return flows.insert(hash: Self.hash(flow), slot: place) }
        while let next = devices[last].next { last = next }
        devices[last].next = place
    }

    /// No call waits for the device any more, or its flow has ended.
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

    /// The devices on that flow that calls wait for.
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
