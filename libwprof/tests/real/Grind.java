/* As grind.py; with garbage for the collector. */
import java.io.File;
import java.util.HashMap;

public final class Grind {
	private static final int N = 16 << 20;

	private static int garbage(int round) {
		HashMap<Integer, String> map = new HashMap<>();
		for (int i = 0; i < 20000; i++)
			map.put(i, "value " + (i ^ round));
		return map.size();
	}

	private static int pass(int[] v) {
		for (int i = 0; i < N; i++)
			v[i] = i;
		for (int round = 0; round < 8; round++) {
			for (int i = 0; i < N; i++)
				v[i] = v[i] * 1664525 + 1013904223;
			if (garbage(round) != 20000)
				throw new IllegalStateException("the map lost entries");
		}
		int sum = 0;
		for (int i = 0; i < N; i++)
			sum += v[i];
		return sum;
	}

	public static void main(String[] args) {
		int[] v = new int[N];
		do {
			System.out.println("pass " + Integer.toUnsignedString(pass(v)));
		} while (!new File("stop").exists());
		System.out.println("done");
	}
}
