import Addressing
import Registration

/// The devices that calls are offered to, and by which forks: looked at when a device registers, and, while a call waits
/// for it, when its flow shows life.
struct CalledDevices: Sendable {
    private var devices: [BindingID: Entry] = [:]
    /// Those that are waited for, by the flow that they registered on. Usually one for each flow: the others of a phone
    /// with several accounts stand in `more`.
    private var first: [Flow: BindingID] = [:]
    private var more: [Flow: [BindingID]] = [:]

    private struct Entry {
        /// Oldest first; as long as the device's branch is not over.
        var forks: [ForkID]
        /// Where life is looked out for.
        var watched: Flow?
    }

    var isEmpty: Bool { devices.isEmpty }

    /// Nobody is waited for whose flow could show life.
    var watchesNothing: Bool { first.isEmpty }

    func forks(of device: BindingID) -> [ForkID] { devices[device]?.forks ?? [] }

    mutating func add(_ fork: ForkID, to device: BindingID) {
        guard devices[device]?.forks.contains(fork) != true else { return }
        devices[device, default: Entry(forks: [])].forks.append(fork)
    }

    mutating func remove(_ fork: ForkID, of device: BindingID) {
        guard var entry = devices[device] else { return }
        entry.forks.removeAll { $0 == fork }
        if entry.forks.isEmpty {
            unwatch(device)
            devices[device] = nil
        } else {
            devices[device] = entry
        }
    }

    // MARK: Life

    /// A call waits for the device: its next sign of life on that flow matters.
    mutating func watch(_ flow: Flow, of device: BindingID) {
        guard devices[device] != nil, devices[device]?.watched != flow else { return }
        unwatch(device)
        devices[device]?.watched = flow
        if first[flow] == nil { first[flow] = device } else { more[flow, default: []].append(device) }
    }

    /// No call waits for it any more, or its flow is gone.
    mutating func unwatch(_ device: BindingID) {
        guard let flow = devices[device]?.watched else { return }
        devices[device]?.watched = nil
        var others = more[flow] ?? []
        if first[flow] == device {
            first[flow] = others.isEmpty ? nil : others.removeFirst()
        } else {
            others.removeAll { $0 == device }
        }
        more[flow] = others.isEmpty ? nil : others
    }

    /// Those that are waited for there.
    func waiting(on flow: Flow) -> [BindingID] {
        guard let device = first[flow] else { return [] }
        return [device] + (more[flow] ?? [])
    }
}
