import Addressing

/// The devices that calls are offered to, and by which calls: looked at when a device registers, and, while a call waits
/// for it, when its flow shows life.
struct CalledDevices: ~Copyable {
    /// Their calls, oldest first, as long as the device's branch is not over.
    private var devices: [DeviceID: [Call]] = [:]
    /// The devices that are waited for, by the flow that they registered on. A flow usually has one; further ones, of a phone
    /// with several accounts, stand in `more`.
    private var first: [Flow: DeviceID] = [:]
    private var more: [Flow: [DeviceID]] = [:]

    /// The flow that is watched for each device.
    private var watched: [DeviceID: Flow] = [:]

    var isEmpty: Bool { devices.isEmpty }

    /// No flow is watched.
    var watchesNothing: Bool { first.isEmpty }

    func calls(of device: DeviceID) -> [Call] { devices[device] ?? [] }

    mutating func add(_ call: Call, to device: DeviceID) {
        guard devices[device]?.contains(where: { $0 === call }) != true else { return }
        devices[device, default: []].append(call)
    }

    mutating func remove(_ call: Call, of device: DeviceID) {
        guard var calls = devices[device] else { return }
        calls.removeAll { $0 === call }
        devices[device] = calls.isEmpty ? nil : calls
        if calls.isEmpty { unwatch(device) }
    }

    // MARK: Life

    /// A call waits for the device: its next sign of life on that flow matters.
    mutating func watch(_ flow: Flow, of device: DeviceID) {
        guard watched[device] != flow else { return }
        unwatch(device)
        watched[device] = flow
        if first[flow] == nil { first[flow] = device } else { more[flow, default: []].append(device) }
    }

    /// No call waits for it any more, or its flow is gone.
    mutating func unwatch(_ device: DeviceID) {
        guard let flow = watched.removeValue(forKey: device) else { return }
        var others = more[flow] ?? []
        if first[flow] == device {
            first[flow] = others.isEmpty ? nil : others.removeFirst()
        } else {
            others.removeAll { $0 == device }
        }
        more[flow] = others.isEmpty ? nil : others
    }

    /// The devices that are waited for on that flow.
    func waiting(on flow: Flow) -> [DeviceID] {
        guard let device = first[flow] else { return [] }
        return [device] + (more[flow] ?? [])
    }
}
