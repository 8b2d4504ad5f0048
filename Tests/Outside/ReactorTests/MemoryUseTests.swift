import Reactor
import Testing

@Suite("Memory of the process")
struct MemoryUseTests {
    @Test func `the kernel says how much is resident`() { #expect(1 << 20...1 << 40 ~= MemoryUse.resident) }

    @Test(arguments: [
        ("0::/system.slice/sippushd.service\n", 400),
        // The memory limit of an outer control group also applies to the groups inside it.
        ("0::/small.slice/sippushd.service\n", 100), ("0::/\n", 800), ("1:cpu:/x\n0::/other.slice\n", 800),
    ])
    func `the least limit of all groups counts`(_ group: String, _ limit: Int) {
        let files = [
            "/sys/fs/cgroup/memory.max": "800\n", "/sys/fs/cgroup/system.slice/memory.max": "max\n",
            "/sys/fs/cgroup/system.slice/sippushd.service/memory.max": "400\n",
            "/sys/fs/cgroup/small.slice/memory.max": "100\n",
            "/sys/fs/cgroup/small.slice/sippushd.service/memory.max": "900\n",
        ]
        #expect(MemoryUse.allowed(group: group) { files[$0] ?? "" } == limit)
    }

    @Test func `without groups there is no limit`() {
        #expect(MemoryUse.allowed(group: "1:memory:/x\n") { _ in "5" } == nil)
        #expect(MemoryUse.allowed(group: "0::/a/b\n") { _ in "max" } == nil)
    }
}
