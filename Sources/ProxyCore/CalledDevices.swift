import Addressing
import Registration

/// The devices that calls are offered to, and by which forks: looked at when a device registers, and, while a call waits
/// for it, when its flow shows life.
struct CalledDevices: Sendable {
    /// Their forks, oldest first, as long as the device's branch is not over.
    private var devices: [DeviceID: [ForkID]] = [:]
    /// Those that are waited for, by the flow that they registered on. Usually one for each flow: the others of a phone
    /// with several accounts stand in `more`.
    private var first: [Flow: DeviceID] = [:]
    private var more: [Flow: [DeviceID]] = [:]

    /// Where life is looked out for.
    private var watched: [DeviceID: Flow] = [:]

    var isEmpty: Bool { devices.isEmpty }

    /// Nobody is waited for whose flow could show life.
    var watchesNothing: Bool { first.isEmpty }

    func forks(of device: DeviceID) -> [ForkID] { devices[device] ?? [] }

    mutating func add(_ fork: ForkID, to device: DeviceID) {
        guard devices[device]?.contains(fork) != true else { return }
        devices[device, default: []].append(fork)
    }

    mutating func remove(_ fork: ForkID, of device: DeviceID) {
        guard var forks = devices[device] else { return }
        forks.removeAll { $0 == fork }
        devices[device] = forks.isEmpty ? nil : forks
        if forks.isEmpty { unwatch(device) }
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

    /// Those that are waited for there.
    func waiting(on flow: Flow) -> [DeviceID] {
        guard let device = first[flow] else { return [] }
        return [device] + (more[flow] ?? [])
    }
}
