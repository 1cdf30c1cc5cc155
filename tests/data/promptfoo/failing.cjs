// A provider that breaks on one prompt, says nothing on another, and states tokens, cost and cache.
module.exports = class {
  id() {
    return 'failing';
  }

  async callApi(prompt) {
    if (prompt === 'fail') {
      return { error: 'the invented backend broke' };
    }
    const output = prompt === 'empty' ? '' : prompt.startsWith('object') ? { triage: 'urgent' } : prompt;
    return {
      output,
      tokenUsage: { total: 12, prompt: 9, completion: 3 },
      cost: 0.001,
      cached: prompt.startsWith('object'),
    };
  }
};
